"""How many of the nearest documents each kind of clustered index finds, on vectors from files or on random ones.

    python -m tools.bench.recall --documents */minilm/corpus.npz --queries */minilm/topics.npz
    python -m tools.bench.recall --random 100000

The documents of all files are joined into one collection. As in a search, what an index of rounded coordinates finds is put in
the order of exact inner products. Queries are searched one by one; the time has one thread.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

from kernelsearch.core.rows import unit_rows
from kernelsearch.core.tables import text_table
from kernelsearch.neighbours import CLUSTERED, Neighbours
from kernelsearch.neighbours.index import load_faiss, looked_for
from tools.bench.quantisers import build, recall
from tools.bench.speed.collection import unit_vectors

DEPTHS = (100, 500, 1000)
#: Random queries.
QUERIES = 60


def read(files: list[Path]) -> np.ndarray:
    """The vectors of .npz `files` at unit length, as they are stored: float16 of shape (vectors, dims)."""
    return unit_rows(np.vstack([np.load(file)["vectors"] for file in files]).astype(np.float32)).astype(np.float16)


def measure(kind: str, documents: np.ndarray, queries: np.ndarray, nearest: np.ndarray) -> tuple[str, ...]:
    """The row of the table for an index of this `kind`; `nearest` (queries, documents) are the true ones, best first."""
    built, building, size = build(kind, documents)
    recalls, spent = [], 0.0
    for depth in DEPTHS:
        found, more = [], looked_for(depth, kind)
        for query in queries:
            began = time.process_time()
            rows = built.search(query[None], more)[0][0]
            spent += (time.process_time() - began) * (depth == DEPTHS[-1])
            rows = rows[rows >= 0]
            found.append(rows[np.argsort(-(documents[rows].astype(np.float32) @ query), kind="stable")][:depth])
        recalls.append(f"{recall(found, nearest[:, :depth]):.4f}")
    return kind, *recalls, f"{1000 * spent / len(queries):.2f}", f"{size:.0f}", f"{building:.1f}"


def main() -> None:
    """Builds an index of every clustered kind and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=Path, nargs="+", help="files of document vectors (.npz with vectors)")
    parser.add_argument("--queries", type=Path, nargs="+", help="files of query vectors")
    parser.add_argument("--random", type=int, help="so many random vectors instead of files")
    arguments = parser.parse_args()
    load_faiss().omp_set_num_threads(1)
    if arguments.random:
        rng = np.random.default_rng(0)
        documents, queries = (unit_vectors(rng, count) for count in (arguments.random, QUERIES))
    elif arguments.documents and arguments.queries:
        documents, queries = read(arguments.documents), read(arguments.queries)
    else:
        parser.error("--documents and --queries, or --random")
    queries = queries.astype(np.float32)
    nearest = Neighbours.build(documents, "flat").search(queries, DEPTHS[-1])[0]
    header = (
        "kind",
        *(f"recall@{depth}" for depth in DEPTHS),
        f"CPU ms for {DEPTHS[-1]}",
        "bytes per document",
        "building, CPU s",
    )
    print(f"{len(documents):,} documents, {len(queries):,} queries, {documents.shape[1]} dimensions")
    print(text_table(header, [measure(kind, documents, queries, nearest) for kind in CLUSTERED]))


if __name__ == "__main__":
    main()
