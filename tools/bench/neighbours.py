"""What each kind of FAISS index finds, needs and takes: recall against an exact scan, bytes, CPU time of building and search.

    python -m tools.bench.neighbours --basis indexes/cran/kernelsearch/klsa
    python -m tools.bench.neighbours --documents */minilm/corpus.npz --queries */minilm/topics.npz
    python -m tools.bench.neighbours --random 100000

With --basis, documents are the rows of a fitted latent basis and queries a sample of them, as `klsa` looks up its best
documents. Documents of several files are joined into one collection. As in a search, what an index of rounded coordinates finds
is put in the order of exact inner products. Queries are searched one by one; the time has one thread.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kernelsearch.core.rows import unit_rows
from kernelsearch.core.tables import text_table
from kernelsearch.neighbours import CLUSTERED, Neighbours
from kernelsearch.neighbours.faiss_index import load_faiss, looked_for
from tools.bench.speed.collection import unit_vectors

DEPTHS = (100, 500, 1000)
#: Queries drawn from a basis, and random ones.
QUERIES = 200


def read(files: list[Path]) -> np.ndarray:
    """The vectors of .npz `files` at unit length, as they are stored: float16 of shape (vectors, dims)."""
    return unit_rows(np.vstack([np.load(file)["vectors"] for file in files]).astype(np.float32)).astype(np.float16)


def measure(kind: str, documents: np.ndarray, queries: np.ndarray, nearest: np.ndarray) -> tuple[str, ...]:
    """The row of the table for an index of this `kind`; `nearest` (queries, documents) are the true ones, best first."""
    start = time.process_time()
    built = Neighbours.build(documents, kind)
    building = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        built.save(Path(folder) / kind)
        size = (Path(folder) / kind).stat().st_size / len(documents)
    recalls, spent = [], 0.0
    for depth in (depth for depth in DEPTHS if depth <= nearest.shape[1]):
        found, more = 0, looked_for(depth, kind)
        for query, best in zip(queries, nearest, strict=True):
            start = time.process_time()
            rows = built.search(query[None], more)[0][0]
            spent += (time.process_time() - start) * (depth == DEPTHS[-1])
            rows = rows[rows >= 0]
            rows = rows[np.argsort(-(documents[rows].astype(np.float32) @ query), kind="stable")][:depth]
            found += len(np.intersect1d(rows, best[:depth]))
        recalls.append(f"{found / (depth * len(queries)):.4f}")
    return kind, *recalls, f"{1000 * spent / len(queries):.2f}", f"{size:.0f}", f"{building:.1f}"


def main() -> None:
    """Builds an index of every clustered kind and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--basis", type=Path, help="the folder of a latent basis")
    parser.add_argument("--documents", type=Path, nargs="+", help="files of document vectors (.npz with vectors)")
    parser.add_argument("--queries", type=Path, nargs="+", help="files of query vectors")
    parser.add_argument("--random", type=int, help="so many random vectors instead of files")
    arguments = parser.parse_args()
    load_faiss().omp_set_num_threads(1)
    rng = np.random.default_rng(0)
    if arguments.basis:
        documents = np.load(arguments.basis / "rows.npy", mmap_mode="r")
        queries = documents[np.sort(rng.choice(len(documents), min(QUERIES, len(documents)), replace=False))]
    elif arguments.random:
        documents, queries = (unit_vectors(rng, count) for count in (arguments.random, QUERIES))
    elif arguments.documents and arguments.queries:
        documents, queries = read(arguments.documents), read(arguments.queries)
    else:
        parser.error("--basis, --documents and --queries, or --random")
    queries = np.ascontiguousarray(queries, dtype=np.float32)
    nearest = Neighbours.build(documents, "flat").search(queries, min(DEPTHS[-1], len(documents)))[0]
    recalls = (f"recall@{depth}" for depth in DEPTHS if depth <= len(documents))
    header = ("kind", *recalls, f"CPU ms for {DEPTHS[-1]}", "bytes per document", "building, CPU s")
    print(f"{len(documents):,} documents, {len(queries):,} queries, {documents.shape[1]} dimensions")
    print(text_table(header, [measure(kind, documents, queries, nearest) for kind in CLUSTERED]))


if __name__ == "__main__":
    main()
