"""`auto` where a part of the documents has a vector: writes the table of docs/reproductions/vectors.md to the standard output.

python -m tools.reproduce.vectors_missing --scratch runs/vectors
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np

import kernelsearch
from kernelsearch.vectors import store
from tools import ROOT
from tools.data.datasets import add_collections_option
from tools.reproduce.pages import markdown_table, rounded
from tools.reproduce.vectors import DEPTH, MEASURED, NAME, open_collection

SHARES, SEED, PARTIAL = (0.9, 0.5, 0.25, 0.1), 2, "partial"


def measure(name: str, collections: Path, scratch: Path) -> dict[str, float]:
    """MAP of one collection by words alone, with all vectors and with random parts of them."""
    collection = open_collection(MEASURED[name], collections, scratch)
    folder = collections / MEASURED[name].folder / "minilm"
    stored, random = np.load(folder / "corpus.npz"), np.random.default_rng(SEED)
    ids, vectors = stored["ids"].astype(str), stored["vectors"]
    out = {
        "`auto`, words alone": collection.mean(collection.run({"auto": {"vectors": "none"}})),
        "`auto`, vectors of all documents": collection.mean(collection.run({"auto": {"vectors": NAME}})),
    }
    place = store.place(collection.index.artefacts, PARTIAL)
    for share in SHARES:
        chosen = random.random(len(ids)) < share
        shutil.rmtree(place, ignore_errors=True)
        collection.index.add_vectors(PARTIAL, vectors[chosen], ids[chosen].tolist())
        opened = kernelsearch.open(collection.index.path, vectors={"name": PARTIAL, "queries": str(folder / "topics.npz")})
        pipeline = opened.pipeline({"auto": {"vectors": PARTIAL}}, hits=DEPTH)
        out[f"`auto`, vectors of {100 * share:g} %"] = collection.mean(pipeline.rerank(collection.queries, collection.lists))
    shutil.rmtree(place)  # other tools expect the collection's only vectors
    return out


def main() -> None:
    """Measures all collections and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "vectors", help="folder of what is kept (%(default)s)")
    arguments = parser.parse_args()
    measured = {name: measure(name, arguments.collections, arguments.scratch) for name in MEASURED}
    labels = list(next(iter(measured.values())))
    rows = [[label, *(rounded(figures[label]) for figures in measured.values())] for label in labels]
    print(markdown_table(["AP", *measured], rows))


if __name__ == "__main__":
    main()
