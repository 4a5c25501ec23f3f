"""How fast similar queries are found in logs of many distinct queries, and how many of the truly nearest are found.

    python -m tools.bench.similar_queries --folder SCRATCH [--queries 10000 100000 1000000] [--asked 50]

Everything is simulated and seeded: two in five logged queries are one to five made-up words, frequent and rare ones, the others
are misspelt, shortened or joined forms of them, and so are the queries asked. Reported for each size of the log: CPU time to
prepare the search, the size of its file, the process's largest memory so far, CPU and wall time of a search (FAISS, the log,
exact comparison; the median), and recall: the share of the ten nearest by the text kernels among the ten found, and how often
the nearest is found.
"""

from __future__ import annotations

import argparse
import resource
import time
from itertools import islice
from pathlib import Path

import numpy as np

import kernelsearch
from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.records import Tally
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.tables import text_table
from kernelsearch.kernels.queries import compact
from kernelsearch.rerankers.rbm25.similar_queries import BLOCK, QueryKernel, SimilarQueries
from tools.bench.rbm25 import emptied, make_index, words, zipf
from tools.data.altered_topics import variant

NEAREST = 10


def make_queries(vocabulary: list[str], count: int, asked: int) -> tuple[list[str], list[str]]:
    """So many (`count`) distinct queries of a log, and `asked` others that are looked up; `vocabulary` are their words."""
    rng = np.random.default_rng(4)
    needs = [
        " ".join(vocabulary[n] for n in zipf(rng, len(vocabulary), k)) for k in rng.integers(1, 6, 2 * count // 5).tolist()
    ]
    logged = dict.fromkeys(needs)
    while len(logged) < count:
        logged[variant(needs[int(rng.integers(len(needs)))], rng)] = None
    return list(logged), [variant(needs[number], rng) for number in rng.integers(len(needs), size=asked).tolist()]


def exact(similar: SimilarQueries, asked: list[str]) -> np.ndarray:
    """Numbers of the nearest logged queries of `similar` for the texts `asked`, all compared, shape (asked, NEAREST)."""
    questions = similar._features(asked)
    ids, values = np.zeros((len(asked), 0), dtype=np.int64), np.zeros((len(asked), 0))
    stream = iter(similar.log.all_queries())
    while block := list(islice(stream, BLOCK)):
        left, right = compact(questions, similar._features([text for _, text in block]))
        numbers = np.broadcast_to([number for number, _ in block], (len(asked), len(block)))
        ids, values = np.hstack([ids, numbers]), np.hstack([values, (left @ right.T).toarray()])
        order = np.argsort(-values, axis=1, kind="stable")[:, :NEAREST]
        ids, values = np.take_along_axis(ids, order, 1), np.take_along_axis(values, order, 1)
    return ids


def measure(index: kernelsearch.Index, database: Path, asked: list[str]) -> tuple[str, ...]:
    """One row of the table, without the size of the log: searches for the texts `asked` among the queries of `database`.

    `index` has the documents of the click log `database`.
    """
    start = time.process_time()
    similar = SimilarQueries(index, ClickLog(database), QueryKernel(clicks=0.0))
    prepared = time.process_time() - start
    file = max(index.artefacts.glob("similar-queries-*/queries.faiss"), key=lambda path: path.stat().st_mtime)
    queries = index.lucene.queries(asked)
    cpu, wall, result = [], [], []
    for query in queries:
        clock, start = time.perf_counter(), time.process_time()
        result.append(similar.find([query], NEAREST)[0].ids)
        cpu.append(1e3 * (time.process_time() - start))
        wall.append(1e3 * (time.perf_counter() - clock))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    nearest = exact(similar, asked)
    recall = np.mean([np.isin(best, ids).mean() for best, ids in zip(nearest, result, strict=True)])
    first = np.mean([best[0] in ids for best, ids in zip(nearest, result, strict=True)])
    sizes = (f"{prepared:.0f} s", f"{file.stat().st_size / 1e6:.0f} MB", f"{memory:.0f} MB")
    return (*sizes, f"{np.median(cpu):.1f} ms", f"{np.median(wall):.1f} ms", f"{recall:.3f}", f"{first:.3f}")


def main() -> None:
    """Measures every number of logged queries and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, type=Path, help="scratch folder, emptied")
    parser.add_argument(
        "--queries", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="numbers of logged queries"
    )
    parser.add_argument("--asked", type=int, default=50, help="number of queries that are looked up")
    arguments = parser.parse_args()
    folder = emptied(arguments.folder)
    vocabulary = words(np.random.default_rng(0), 20_000)
    index = make_index(folder, 5_000, vocabulary)
    rows = []
    for count in arguments.queries:
        logged, asked = make_queries(vocabulary, count, arguments.asked)
        database = folder / f"clicks-{count}.db"
        import_records((Tally(text, f"d{number % 5_000}", 1, 0, 1.0) for number, text in enumerate(logged)), database)
        rows.append((f"{count:,}", *measure(index, database, asked)))
        print("\t".join(rows[-1]), flush=True)
    header = ("queries", "prepare", "file", "memory", "search (CPU)", "(wall)", f"recall@{NEAREST}", "nearest found")
    print(text_table(header, rows, align=">" * len(header)))


if __name__ == "__main__":
    main()
