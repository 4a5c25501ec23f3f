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
from kernelsearch.rerankers.fusion.recipes import READING_WEIGHTS
from tools.reproduce.fusion_conditions import FIXED, SEED, learn, open_table, ranked
from tools.reproduce.pages import markdown_table

#: Topics per draw, the number of draws, and the folds of each: four fifths of the topics are trained on.
TOPICS, DRAWS, FOLDS = (15, 20, 25, 30), 2, 5
COLLECTIONS = ("cran", "cacm", "cisi", "npl")
LABELS = ("auto", "sum", "fusion", "as new")

#: The marks around the section in docs/reproductions/fusion.md.
BEGIN, END = "<!-- few topics -->", "<!-- end of few topics -->"


def measure_few(collections: Path, scratch: Path) -> None:
    """Measures the collections and keeps the gains over BM25 per number of topics and draw in the scratch folder."""
    weights = np.array([*(READING_WEIGHTS.get(name, 0.0) for name in FIXED), 0.0])  # votes have none
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
                    held_out, best = drawn[folds == fold].tolist(), learn(table, voters)
                    values["fusion"] += ranked(table, best, held_out, voters, as_new=False)
                    values["as new"] += ranked(table, best, held_out, voters, as_new=True)
                    entries = [table.entry(topic, voters) for topic in held_out]
                    values["sum"] += [entry.ap(entry.features @ weights) for entry in entries]
                base = table.bm25[drawn].mean()
                gains.setdefault(str(size), []).append({label: float(np.mean(values[label]) / base - 1) for label in LABELS})
        result.parent.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps(gains), encoding="utf-8")
        print(name, "few topics", flush=True)


def few_section(scratch: Path) -> str:
    """The section of docs/reproductions/fusion.md; empty where nothing was measured."""
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
        cells = [
            f"{by_label['sum']:+.1f} / {by_label['fusion']:+.1f} / {by_label['as new']:+.1f}" for by_label in means.values()
        ]
        total = " / ".join(f"{np.mean([by_label[label] for by_label in means.values()]):+.1f}" for label in LABELS[1:])
        rows.append([f"{size} ({size * (FOLDS - 1) // FOLDS})", *cells, total])
    table = markdown_table(("topics (trained on)", *gains, "mean"), rows)
    return TEXT.format(table=table, draws=DRAWS, folds=FOLDS, enough=ENOUGH_QUERIES)


TEXT = """## Few training topics

{draws} random draws of a few topics of a collection, each measured by {folds} folds. Mean change of MAP against BM25 in
percent: of the sum with `auto`'s weights / of what the default learner chooses / of the same on topics as new (see above).

{table}

Below {enough} training topics `train --rerank fusion` does not learn; the limit was 30 before. Draws differ by more than the
rows of the table: on other draws, with `auto`'s earlier sharpness, the learner gave +17.4% where the sum gave +18.5% (9
training topics, 16 draws), +16.1% instead of +17.5% (15, eight draws), and +27.5% instead of +18.9% (24, eight draws)."""
