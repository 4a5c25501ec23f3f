"""Learned fusion with few judged topics: draws of a collection's topics, each measured by five folds.

From how many training topics on does the default learner gain over the weights of `auto`, which need none?
`python -m tools.reproduce.fusion --parts few` measures and writes the section of the page.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from kernelsearch.learning.folds import topic_folds
from kernelsearch.rerankers.fusion.learners import ENOUGH_QUERIES
from tools.reproduce.fusion_conditions import SEED, learn, open_table, ranked
from tools.reproduce.pages import markdown_table

#: Topics per draw, the number of draws, and the folds of each: four fifths of the topics are trained on.
TOPICS, DRAWS, FOLDS = (15, 20, 25, 30, 35), 4, 5
COLLECTIONS = ("cran", "cacm", "cisi", "npl")
LABELS = ("auto", "fusion", "as new")

#: The marks around the section in docs/reproductions/fusion.md.
BEGIN, END = "<!-- few topics -->", "<!-- end of few topics -->"


def measure_few(collections: Path, scratch: Path) -> None:
    """Measures the `collections` and saves the gains over BM25 per number of topics and draw in the folder `scratch`."""
    for name in COLLECTIONS:
        result = scratch / "results" / f"few-{name}.json"
        if result.exists():
            continue
        table = open_table(name, collections, scratch, "")
        gains: dict[str, list[dict[str, float]]] = {}
        for size in TOPICS:
            for draw in range(DRAWS):
                drawn = np.sort(np.random.default_rng(draw).permutation(len(table.totals))[:size])
                folds = topic_folds(table.qids[drawn], FOLDS, SEED)
                values: dict[str, list[float]] = {label: [] for label in LABELS}
                values["auto"] = table.auto[drawn].tolist()
                for fold in range(FOLDS):
                    voters = np.isin(np.arange(len(table.totals)), drawn[folds != fold])
                    held_out, fusion = drawn[folds == fold].tolist(), learn(table, voters)
                    values["fusion"] += ranked(table, fusion, held_out, voters, as_new=False)
                    values["as new"] += ranked(table, fusion, held_out, voters, as_new=True)
                base = table.bm25[drawn].mean()
                gains.setdefault(str(size), []).append({label: float(np.mean(values[label]) / base - 1) for label in LABELS})
        result.parent.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps(gains), encoding="utf-8")
        print(name, "few topics", flush=True)


def few_section(scratch: Path) -> str:
    """The section of docs/reproductions/fusion.md from the results in `scratch`; empty where nothing was measured."""
    files = {name: scratch / "results" / f"few-{name}.json" for name in COLLECTIONS}
    gains = {name: json.loads(file.read_text(encoding="utf-8")) for name, file in files.items() if file.exists()}
    if not gains:
        return ""
    rows = []
    for size in TOPICS:
        means = {
            name: {label: 100 * np.mean([draw[label] for draw in by_size[str(size)]]) for label in LABELS}
            for name, by_size in gains.items()
        }
        cells = [" / ".join(f"{by_label[label]:+.1f}" for label in LABELS) for by_label in means.values()]
        total = " / ".join(f"{np.mean([by_label[label] for by_label in means.values()]):+.1f}" for label in LABELS)
        draws = [draw for by_size in gains.values() for draw in by_size[str(size)]]
        below = [sum(draw[label] < draw["auto"] - 0.005 for draw in draws) for label in LABELS[1:]]
        counts = f"{below[0]} / {below[1]} of {len(draws)}"
        rows.append([f"{size} ({size * (FOLDS - 1) // FOLDS})", *cells, total, counts])
    table = markdown_table(("topics (trained on)", *gains, "mean", "draws below auto"), rows)
    return TEXT.format(table=table, draws=DRAWS, folds=FOLDS, enough=ENOUGH_QUERIES)


TEXT = """## Few training topics

{draws} random draws of a few topics of a collection, each measured by {folds} folds. Mean change of MAP against BM25 in
percent: of `auto` / of what the default learner chooses / of the same on topics as new (see above). The last column counts
the draws in which the learner is below `auto` by more than .5% of BM25's MAP, as it is and on topics as new.

{table}

Below {enough} training topics `train --rerank fusion` does not learn, and the model is `auto`. A limit of 30 would lose four to
six percent of BM25's MAP on average between 20 and 28 training topics, in exchange for at most .8% on npl; with 12 and 16 the
learner is below `auto` in a quarter of the draws or more."""
