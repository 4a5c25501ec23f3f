"""Learned fusion on claims: scifact's training topics, with and without `votes`, and without the claims that are related.

Claims of scifact were written in pairs from the same citation (one often negates the other), and the pairs were split between
training and test topics. A claim is *related* to one of the other part here where both have a relevant abstract in common.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from tools.data.datasets import DATASETS, Judgements, judged_topics
from tools.reproduce.fusion_conditions import learn, open_table, ranked
from tools.reproduce.pages import markdown_table, rounded

FIRST = "BM25"
ALL, RELATED, NEW = "all", "related", "new"
#: {row: (whether `votes` are a feature and a source, whether claims related to a test topic are trained on)}.
TRAINED = {
    "fusion": (True, True),
    "fusion without `votes`": (False, True),
    "fusion, no related claims in training": (True, False),
    "fusion without `votes`, no related claims in training": (False, False),
}


def relevant_docids(qrels: Judgements, qid: str) -> set[str]:
    """The ids of the documents that are relevant to the topic `qid` in `qrels`."""
    return {docid for docid, grade in qrels.get(qid, {}).items() if grade > 0}


def related_topics(qrels: Judgements, others: Judgements) -> set[str]:
    """The topics of `qrels` that have a relevant document in common with a topic of `others`."""
    known = set().union(*(relevant_docids(others, qid) for qid in others))
    return {qid for qid in qrels if relevant_docids(qrels, qid) & known}


def measure(collections: Path, scratch: Path) -> dict[str, dict[str, float]]:
    """AP per test topic of every row, {row: {qid: AP}}; taken from the folder `scratch` where it was measured before.

    `collections` is the folder of the collections.
    """
    cache = scratch / "claims.json"
    if not cache.exists():
        test = open_table("scifact", collections, scratch, "scifact train")
        training = open_table("scifact train", collections, scratch, "")
        index = DATASETS["scifact"].open_index(collections, scratch / "indexes" / DATASETS["scifact"].folder)
        topics, qrels = DATASETS["scifact"].read(collections)
        qids = [str(qid) for qid in test.qids]
        rm3 = index.evaluate(topics, qrels, {"run": None}, measures=("AP",), rm3=True).evaluations["run"].values["AP"]
        by_row: dict[str, Any] = {FIRST: test.bm25.tolist(), "RM3": [rm3[qid] for qid in qids], "auto": test.auto.tolist()}
        _, judged = DATASETS["scifact train"].read(collections)
        dropped = related_topics(judged, qrels)
        unrelated = np.array([str(qid) not in dropped for qid in training.qids])
        for name, (votes, with_related) in TRAINED.items():
            learned = np.ones(len(training.totals), dtype=bool) if with_related else unrelated
            fusion = learn(training, learned, voting=votes)
            by_row[name] = ranked(test, fusion, list(range(len(qids))), learned & votes, as_new=False)
            print(f"{name}: {fusion.choice}, MAP {np.mean(by_row[name]):.4f}", flush=True)
        values = {name: dict(zip(qids, map(float, aps), strict=True)) for name, aps in by_row.items()}
        cache.write_text(json.dumps(values), encoding="utf-8")
    content: dict[str, dict[str, float]] = json.loads(cache.read_text(encoding="utf-8"))
    return content


def section(collections: Path, scratch: Path) -> str:
    """The section of docs/reproductions/auto.md; `collections` and `scratch` are those of `measure`."""
    values = measure(collections, scratch)
    dataset = DATASETS["scifact"]
    topics, qrels = dataset.read(collections)
    learned, judged = dataset.read_training(collections) or ({}, {})
    related = related_topics(qrels, judged)
    qids = judged_topics(topics, qrels)
    groups = {ALL: qids, RELATED: [qid for qid in qids if qid in related], NEW: [qid for qid in qids if qid not in related]}
    rows = []
    for name, by_topic in values.items():
        cells = [name]
        for group in groups.values():
            before, after = (np.array([aps[qid] for qid in group]) for aps in (values[FIRST], by_topic))
            change = after - before
            shown = f" {100 * change.mean() / before.mean():+.1f}% ({(change < -0.01).sum()}/{(change > 0.01).sum()})"
            cells.append(rounded(float(after.mean())) + ("" if name == FIRST else shown))
        rows.append(cells)
    header = ("MAP, test topics", *(f"{name} ({len(group)})" for name, group in groups.items()))

    def gain(name: str, group: str) -> float:
        before, after = (np.mean([values[row][qid] for qid in groups[group]]) for row in (FIRST, name))
        return 100 * float(after / before - 1)

    votes, whole, apart, without = TRAINED
    verdict = VERDICT.format(
        twins=gain(votes, RELATED),
        strangers=gain(votes, NEW),
        apart=gain(apart, ALL),
        whole=gain(whole, ALL),
        without=gain(without, ALL),
    )
    return TEXT.format(
        verdict=verdict,
        table=markdown_table(header, rows),
        training=len(learned),
        test=len(qids),
        related=len(groups[RELATED]),
        dropped=len(related_topics(judged, qrels)),
    )


TEXT = """## Learned fusion on claims

Fusion trained on scifact's {training} training topics (`train --rerank fusion`, its defaults), with and without `votes`,
measured on the {test} test topics; in parentheses the topics that lose and gain more than .01 AP. Claims of scifact were
written in pairs from one citation, one often denying what the other says, and the pairs were split between training and test
topics: {related} test topics are *related*, which means that they have a relevant abstract in common with a training topic; the
others are *new*. The last two rows leave the {dropped} training topics out that are related to a test topic.

{table}

{verdict}
"""

VERDICT = """`votes` add the documents of the paired claim: {twins:+.1f}% on related topics. They decrease with the distance of
the nearest training query, so that new topics change by {strangers:+.1f}% (an earlier version without this: +42.6% and -4.2%).
With the related claims left out of training the test topics change by {apart:+.1f}% (that version: -8.9%). Without `votes`
fusion changes MAP by {whole:+.1f}% with all training topics, and by {without:+.1f}% without the related ones."""
