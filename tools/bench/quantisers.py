"""What FAISS's kinds lose and save on a fitted basis: recall of the nearest rows against an exact scan, size, time per query.

    python -m tools.bench.quantisers BASIS_FOLDER [--queries 200] [--k 100]

Queries are the rows of documents, drawn by a seed, as `klsa` with z = 1 looks up its best document's row.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from kernelsearch.core.tables import text_table
from kernelsearch.neighbours import CLUSTERED, Neighbours


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
    with tempfile.TemporaryDirectory() as folder:
        for kind in CLUSTERED:
            start = time.process_time()
            built = Neighbours.build(rows, kind)
            building = time.process_time() - start
            built.save(Path(folder) / kind)
            start = time.process_time()
            result = built.search(queries, arguments.k)[0]
            seconds = (time.process_time() - start) / arguments.queries
            hits = [
                len(set(approximate) & set(true)) for approximate, true in zip(result.tolist(), exact.tolist(), strict=True)
            ]
            size = (Path(folder) / kind).stat().st_size
            table.append(
                (
                    kind,
                    f"{np.mean(hits) / arguments.k:.3f}",
                    f"{size / len(rows):.0f}",
                    f"{building:.0f}",
                    f"{1000 * seconds:.1f}",
                )
            )
    header = ("kind", f"recall@{arguments.k}", "bytes per document", "building, CPU s", "search, CPU ms per query")
    print(f"{len(rows):,} documents, {rows.shape[1]} dimensions")
    print(text_table(header, table))


if __name__ == "__main__":
    main()
