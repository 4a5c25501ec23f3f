"""How `auto`'s weights were chosen: a search over weights, leaving one collection out at a time.

    python -m tools.reproduce.choose_auto [--collections FOLDER] [--scratch FOLDER] [--price 1.2]

Weights maximise the mean gain in MAP over BM25 on training collections, plus `price` times the mean gain (usually a loss) on
known-item queries: words of one sentence of a document, with that document as the only answer. The latter represent collections
on which expansion hurts. The search climbs one weight at a time and ends on a hill that depends on where it starts; it says
how what it finds compares with the weights that `auto` has.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.ranking.lists import Lists, list_average_precision
from kernelsearch.rerankers.fusion.recipes import AUTO_WEIGHTS as WEIGHTS
from tools import ROOT
from tools.data.datasets import DATASETS, add_collections_option
from tools.reproduce.fusion_tables import FIXED, feature_table, keep, open_dataset, without_votes

TRAINING = ("cran", "cacm", "cisi", "npl", "nfcorpus dev")
KNOWN_ITEMS = ("cran", "cisi", "npl", "nfcorpus dev")
START = {
    "first": 1.0, "bm25:k1=2,b=0.75": 2.0, "dirichlet:mu=1000": 1.0, "cosine": 1.0, "bm25:field=title": 2.0, "rm3": 2.0,
    "rm3:terms=40": 2.0, "pert": 3.0, "top:docs=5": 1.0, "klsa:z=5,lambda=1": 1.0, "klsa:z=20,lambda=1": 1.0,
}  # fmt: skip
GRID = (0.0, 0.5, 1.0, 2.0, 3.0)


def known_items(corpus: Path, count: int = 100, seed: int = 7) -> tuple[dict[str, str], dict[str, dict[str, int]]]:
    """Topics of up to ten words out of one sentence each, and the one document that is the answer."""
    chance = np.random.default_rng(seed)
    with open(corpus, encoding="utf-8") as stream:
        documents = [json.loads(line) for line in stream]
    topics: dict[str, str] = {}
    qrels: dict[str, dict[str, int]] = {}
    for number in chance.permutation(len(documents)):
        sentences = re.split(r"(?<=[.!?])\s+|\n+", documents[number]["contents"])
        usable = [sentence for sentence in sentences if 8 <= len(sentence.split()) <= 40]
        if not usable:
            continue
        words = usable[chance.integers(len(usable))].split()
        kept = [word for word in words if chance.random() < 0.4][:10]
        if len(kept) >= 3:
            qid = f"k{len(topics)}"
            topics[qid] = re.sub(r"[^A-Za-z0-9 -]", " ", " ".join(kept))
            qrels[qid] = {str(documents[number]["id"]): 1}
        if len(topics) == count:
            break
    return topics, qrels


class Measured:
    """One collection's z-scored features, and the gain of any weights over its first stage."""

    def __init__(self, table: dict[str, NDArray], relevant: NDArray[np.int64]) -> None:
        recipe = FIXED
        self.X = np.ascontiguousarray(table["X"][:, [recipe.index(name) for name in START]])
        self.y, self.lists, self.relevant = table["y"] > 0, list(Lists.of(table["place"])), relevant
        self.base = self.worth(table["X"][:, recipe.index("first")])

    def worth(self, scores: NDArray) -> float:
        pairs = zip(self.lists, self.relevant, strict=True)
        return float(np.mean([list_average_precision(scores[rows], self.y[rows], int(total)) for rows, total in pairs]))

    def gain(self, weights: tuple[float, ...]) -> float:
        return self.worth(self.X @ np.array(weights, dtype=np.float32)) / self.base - 1


def worth(measured: list[Measured], safety: list[Measured], weights: tuple[float, ...], price: float) -> float:
    """What the search maximises."""
    gains, losses = [one.gain(weights) for one in measured], [one.gain(weights) for one in safety]
    return float(np.mean(gains) + price * np.mean(losses) + 0.5 * min(0.0, *gains))


def search(measured: list[Measured], safety: list[Measured], start: tuple[float, ...], price: float) -> tuple[float, ...]:
    """Weights by coordinate ascent over GRID."""
    known: dict[tuple[float, ...], float] = {}

    def value(weights: tuple[float, ...]) -> float:
        if weights not in known:
            known[weights] = worth(measured, safety, weights, price)
        return known[weights]

    best, improved = start, True
    while improved:
        improved = False
        for place in range(len(start)):
            for weight in GRID:
                other = (*best[:place], weight, *best[place + 1 :])
                if any(other) and value(other) > value(best) + 1e-4:
                    best, improved = other, True
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument(
        "--scratch", type=Path, default=ROOT / "runs" / "reproduce-fusion", help="folder for indexes and results"
    )
    parser.add_argument("--price", type=float, default=1.2, help="weight of the loss on known-item queries")
    arguments = parser.parse_args()
    measured: dict[str, Measured] = {}
    safety: dict[str, Measured] = {}
    for name in TRAINING:
        index, dataset = open_dataset(arguments.collections, arguments.scratch, name), DATASETS[name]

        def read(label: str, texts: Any, judged: Any, index: Any = index) -> Measured:
            cache = arguments.scratch / "tables" / f"choose-{label.replace(' ', '-')}.npz"
            table = without_votes(feature_table(index, texts, judged, cache))
            names = table["qids"][[table["place"][rows[0]] for rows in Lists.of(table["place"])]]
            return Measured(table, np.array([sum(grade > 0 for grade in judged[str(qid)].values()) for qid in names]))

        measured[name] = read(name, *dataset.read(arguments.collections))
        if name in KNOWN_ITEMS:
            safety[name] = read(f"items-{name}", *known_items(arguments.collections / dataset.folder / dataset.corpus))
    start, shipped = tuple(START.values()), tuple(WEIGHTS.get(name, 0.0) for name in START)
    found = search(list(measured.values()), list(safety.values()), start, arguments.price)
    print("found from here:", {name: weight for name, weight in zip(START, found, strict=True) if weight})
    for label, weights in (("found", found), ("auto's", shipped)):
        print(f"{label}: {worth(list(measured.values()), list(safety.values()), weights, arguments.price):.4f}")
    result: dict[str, Any] = {"collections": {}, "known items": {}}
    for name, one in measured.items():
        others = [other for label, other in measured.items() if label != name]
        held_out = one.gain(search(others, list(safety.values()), start, arguments.price))
        result["collections"][name] = one.gain(shipped), held_out
        print(f"{name}: {one.gain(shipped):+.1%}; chosen without it: {held_out:+.1%}")
    for name, one in safety.items():
        result["known items"][name] = one.gain(shipped)
        print(f"known items of {name}: {one.gain(shipped):+.1%}")
    keep(arguments.scratch, "choose-auto", result)


if __name__ == "__main__":
    main()
