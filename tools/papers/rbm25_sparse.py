"""Robust BM25's forms where a query has few clicks or a wrong one: the table "Sparse and wrong clicks" of its page.

    python -m tools.papers.rbm25_sparse --scratch FOLDER [--parts cacm cisi cran npl nfcorpus] [--write]

Every topic is in the log under its own wording and asked again. The page says how `auto` was chosen, for which nfcorpus was not
used. Each part's figures are kept as JSON in the scratch folder; the table has all parts that are there.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ir_measures import AP

import kernelsearch
from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.models import PositionBased
from kernelsearch.clicks.records import Impression, normalise_query
from kernelsearch.clicks.simulate import Need, simulate
from kernelsearch.core.types import Candidates
from kernelsearch.rerankers import registry
from tools.data.datasets import Judgements, add_collections_option, open_index
from tools.papers.rbm25 import PAGE, SEED, judged, per_query

FORMS: tuple[tuple[str, dict[str, str]], ...] = (("rbm25-paper", {}), ("rbm25-paper", {"form": "prior"}), ("rbm25", {}))
PARTS = ["cacm", "cisi", "cran", "npl", "nfcorpus"]
START, END = "<!-- table: sparse -->\n", "<!-- end -->"


def single_clicks(
    topics: dict[str, str],
    rankings: Sequence[Sequence[str]],
    qrels: Judgements,
    *,
    right: bool = False,
    everything: Sequence[str] = (),
) -> list[Impression]:
    """One list of ten documents per topic with one click.

    With `right` it is on the best-ranked relevant document, otherwise on a random irrelevant one of the list, or of
    `everything` where that is given. A document that BM25 doesn't rank among the first ten takes the last place of the list.
    `rankings` are BM25's docids per topic of `topics`, `qrels` their judgements.
    """
    rng = np.random.default_rng(SEED)
    log = []
    for (qid, text), ranking in zip(topics.items(), rankings, strict=True):
        shown = list(ranking[:10])
        relevant = [docid for docid in ranking if qrels[qid].get(docid, 0) > 0]
        wrong = [docid for docid in everything or shown if qrels[qid].get(docid, 0) <= 0]
        if not (relevant if right else wrong):
            continue
        clicked = relevant[0] if right else wrong[int(rng.integers(len(wrong)))]
        if clicked not in shown:
            shown = [*shown[:-1], clicked]
        positions = tuple(range(1, len(shown) + 1))
        log.append(Impression(normalise_query(text), tuple(shown), positions, tuple(docid == clicked for docid in shown)))
    return log


def two_clicks(topics: dict[str, str], rankings: Sequence[Sequence[str]], qrels: Judgements) -> list[Impression]:
    """Two equal lists per topic with a click on the same relevant document, a random one of the lowest grade in the list.

    The parameters are those of `single_clicks`.
    """
    rng = np.random.default_rng(SEED)
    log = []
    for (qid, text), ranking in zip(topics.items(), rankings, strict=True):
        shown = tuple(ranking[:10])
        grades = {docid: qrels[qid].get(docid, 0) for docid in shown}
        lowest = min((grade for grade in grades.values() if grade > 0), default=0)
        relevant = [docid for docid in shown if grades[docid] == lowest > 0]
        if relevant:
            clicked = relevant[int(rng.integers(len(relevant)))]
            places = tuple(range(1, len(shown) + 1))
            log += 2 * [Impression(normalise_query(text), shown, places, tuple(docid == clicked for docid in shown))]
    return log


def logs(index: kernelsearch.Index, topics: dict[str, str], qrels: Judgements) -> dict[str, list[Impression]]:
    """The logs by the name of their condition, from wrong and sparse to ten impressions per topic.

    `topics` and `qrels` are those of `index`.
    """
    take = index.forward.docids.take
    lists = index.lucene.search(index.lucene.queries(list(topics.values())), 1000)
    rankings = [take(listed.docs) for listed in lists]
    needs = [Need(text, tuple(ranking), qrels[qid]) for (qid, text), ranking in zip(topics.items(), rankings, strict=True)]
    others = take(index.forward.live_docs)

    def impressions(count: int) -> list[Impression]:
        model = PositionBased()
        rounds = [simulate(needs, len(needs), model=model, seed=100 + number, others=others) for number in range(count)]
        return [record for records in rounds for record in records]

    wrong = single_clicks(topics, rankings, qrels)
    return {
        "one wrong click": wrong,
        "two wrong clicks on one document": [record for record in wrong for _ in range(2)],
        "one wrong click, any document": single_clicks(topics, rankings, qrels, everything=others),
        "one simulated impression": impressions(1),
        "one right click": single_clicks(topics, rankings, qrels, right=True),
        "two right clicks on one document": two_clicks(topics, rankings, qrels),
        "3 impressions": impressions(3),
        "10 impressions": impressions(10),
    }


def measure(index: kernelsearch.Index, scratch: Path, topics: dict[str, str], qrels: Judgements) -> list[list[float | str]]:
    """A row per condition: its name, MAP of BM25 and of each form.

    `topics` and `qrels` are those of `index`; logs are written to `scratch`.
    """
    queries = index.lucene.queries(list(topics.values()))
    lists = index.lucene.search(queries, 1000)

    def mean(ranked: Sequence[Candidates]) -> float:
        run = {
            qid: {docid: -float(rank) for rank, docid in enumerate(index.forward.docids.take(listed.docs[:1000]))}
            for qid, listed in zip(topics, ranked, strict=True)
        }
        return float(np.mean(per_query(qrels, run, [AP])["AP"]))

    rows: list[list[float | str]] = []
    for condition, log in logs(index, topics, qrels).items():
        database = scratch / f"{condition.replace(' ', '-')}.db"
        import_records(log, database)
        row: list[float | str] = [condition, mean(lists)]
        for name, options in FORMS:
            method: Any = registry.method(name).make(index, clicks=str(database), **options)
            row.append(mean(method.apply_batch(queries, lists)))
        rows.append(row)
    return rows


def table(rows: Sequence[Sequence[float | str]]) -> str:
    """The Markdown table of `rows`; the last columns compare auto with the better of the other two forms and with BM25.

    A row has the collection, then what `measure` returns.
    """
    lines = [
        "| collection | log per topic | BM25 | printed | prior | auto | against the better form | against BM25 |",
        "| --- " * 8 + "|",
    ]
    for part, name, *figures in rows:
        plain, paper, prior, auto = map(float, figures)
        values = " | ".join(f"{value:.4f}".lstrip("0") for value in (plain, paper, prior, auto))
        lines.append(f"| {part} | {name} | {values} | {auto / max(paper, prior) - 1:+.1%} | {auto / plain - 1:+.1%} |")
    return "\n".join(lines)


def main() -> None:
    """Measures, prints the table, and with --write puts it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", required=True, type=Path, help="folder for indexes and logs")
    parser.add_argument("--parts", nargs="*", default=PARTS, choices=PARTS, help="collections to measure")
    parser.add_argument("--write", action="store_true", help="write the table into docs/reproductions/rbm25.md")
    arguments = parser.parse_args()
    for part in arguments.parts:
        folder, scratch = arguments.collections / part, arguments.scratch / part
        scratch.mkdir(parents=True, exist_ok=True)
        index = open_index(scratch / "index", folder / "corpus.jsonl", "en")
        (scratch / "sparse.json").write_text(json.dumps(measure(index, scratch, *judged(folder))))
    files = {part: arguments.scratch / part / "sparse.json" for part in PARTS}
    rows = [[part, *row] for part, file in files.items() if file.exists() for row in json.loads(file.read_text())]
    print(table(rows))
    if arguments.write:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(START)
        PAGE.write_text(f"{before}{START}{table(rows)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
