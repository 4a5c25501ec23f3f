"""What FAISS's kinds lose and save on a fitted basis: recall of the nearest rows against an exact scan, size, time per query.

    python -m tools.bench.quantisers BASIS_FOLDER [--queries 200] [--k 100]

Queries are the rows of documents, drawn by a seed, as `klsa` with z = 1 looks up its best document's row.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from kernelsearch.core.tables import text_table
from kernelsearch.neighbours import CLUSTERED, Neighbours


def build(kind: str, vectors: np.ndarray) -> tuple[Neighbours, float, float]:
    """An index of this `kind` over the rows of `vectors`, the CPU seconds that building takes, and its bytes per vector."""
    start = time.process_time()
    built = Neighbours.build(vectors, kind)
    seconds = time.process_time() - start
    with tempfile.TemporaryDirectory() as folder:
        built.save(Path(folder) / kind)
        return built, seconds, (Path(folder) / kind).stat().st_size / len(vectors)


def recall(found: Iterable[np.ndarray], nearest: np.ndarray) -> float:
    """The share of the true neighbours `nearest` (queries, k) that are among those `found` per query."""
    hits = [len(np.intersect1d(rows, best)) for rows, best in zip(found, nearest, strict=True)]
    return sum(hits) / nearest.size


def main() -> None:
    """Builds an index of every kind and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("basis", type=Path, help="the folder of a basis, or a folder with its rows.npy")
    parser.add_argument("--queries", type=int, default=200, help="number of queries")
    parser.add_argument("--k", type=int, default=100, help="neighbours per query")
    arguments = parser.parse_args()
    rows = np.load(arguments.basis / "rows.npy", mmap_mode="r")
    chosen = np.sort(np.random.default_rng(0).choice(len(rows), arguments.queries, replace=False))
    queries = np.ascontiguousarray(rows[chosen])
    exact = Neighbours.build(rows, "flat").search(queries, arguments.k)[0]
    table = []
    for kind in CLUSTERED:
        built, building, size = build(kind, rows)
        start = time.process_time()
        found = built.search(queries, arguments.k)[0]
        seconds = (time.process_time() - start) / arguments.queries
        table.append((kind, f"{recall(found, exact):.3f}", f"{size:.0f}", f"{building:.0f}", f"{1000 * seconds:.1f}"))
    header = ("kind", f"recall@{arguments.k}", "bytes per document", "building, CPU s", "search, CPU ms per query")
    print(f"{len(rows):,} documents, {rows.shape[1]} dimensions")
    print(text_table(header, table))


if __name__ == "__main__":
    main()
