"""How fast the click log is imported and a query is reranked, and how both grow with the log.

    python -m tools.bench.rbm25 --folder SCRATCH [--impressions 10000 100000 1000000] [--documents 20000] [--queries 50]

Everything is simulated and seeded: documents and queries of made-up words, frequent and rare ones, ten documents per list.
Reported for each size of the log: time to import (CPU and wall), size of the database, CPU time to prepare the search for
similar queries, and the time of a query beyond its retrievals, with 20 similar queries and 400 pairs (20 of each). One query
at a time; on a busy machine only CPU times can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import kernelsearch
from kernelsearch.clicks.importing import import_log
from kernelsearch.clicks.records import Impression, write_log
from kernelsearch.core.tables import text_table
from kernelsearch.rerankers.base import DEFAULT_CONTEXT
from kernelsearch.rerankers.rbm25.reranker import RobustBM25
from tools.data.datasets import open_index


def words(rng: np.random.Generator, count: int) -> list[str]:
    """So many (`count`) random words of four to nine letters, drawn with `rng`."""
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    return ["".join(rng.choice(letters, size=int(rng.integers(4, 10)))) for _ in range(count)]


def zipf(rng: np.random.Generator, size: int, count: int) -> np.ndarray:
    """`count` numbers below `size`, small ones often, drawn with `rng`."""
    return np.minimum((size ** rng.random(count) - 1), size - 1).astype(np.int64)


def make_index(folder: Path, documents: int, vocabulary: list[str]) -> kernelsearch.Index:
    """An index in `folder` of so many `documents` of 60 random words of `vocabulary`."""
    rng = np.random.default_rng(1)
    source = folder / "corpus.jsonl"
    with open(source, "w", encoding="utf-8") as stream:
        for number in range(documents):
            text = " ".join(vocabulary[n] for n in zipf(rng, len(vocabulary), 60))
            stream.write(json.dumps({"id": f"d{number}", "contents": text}) + "\n")
    return open_index(folder / "index", source)


def make_log(vocabulary: list[str], documents: int, impressions: int) -> Iterator[Impression]:
    """Lists of ten for queries of three words; a tenth as many distinct queries as impressions, popular ones often.

    `vocabulary` are the words of the queries, `documents` is the number of documents d0, d1, ... in the lists.
    """
    rng = np.random.default_rng(2)
    distinct = max(impressions // 10, 10)
    queries = [" ".join(vocabulary[n] for n in row) for row in zipf(rng, len(vocabulary), 3 * distinct).reshape(-1, 3)]
    first = rng.integers(documents, size=distinct)
    for number in rng.permutation(np.concatenate([np.arange(distinct), zipf(rng, distinct, impressions - distinct)])).tolist():
        # Neighbouring queries share documents: the list is a window around the query's own place.
        docs = (first[number] + rng.permutation(30)[:10]) % documents
        clicked = rng.random(10) < 0.4 / np.arange(1, 11)
        yield Impression(
            queries[number], tuple(f"d{doc}" for doc in docs.tolist()), tuple(range(1, 11)), tuple(clicked.tolist())
        )


def timed_queries(index: kernelsearch.Index, database: Path, texts: list[str]) -> tuple[np.ndarray, np.ndarray, float]:
    """Milliseconds of CPU and wall of finding similar queries and of all beyond retrieval, shapes (queries, 2); mean pairs.

    `index` has the documents, `database` is the click log, `texts` are the queries; the first five are not counted.
    """
    reranker = RobustBM25(index, clicks=str(database), similar=20, min_similarity=0)
    queries = index.lucene.queries(texts)
    lists = index.lucene.search(queries, 1000)
    beyond, finding, pairs = [], [], []

    def now() -> np.ndarray:
        return 1e3 * np.array([time.process_time(), time.perf_counter()])

    for query, candidates in zip(queries, lists, strict=True):
        start = now()
        similar = reranker.similar.find([query], 20, [candidates])[0]
        result = now()
        fetching = reranker.retrieve([similar], DEFAULT_CONTEXT)
        retrieved = [fetching[number] for number in similar.ids.tolist()]
        fetched = now()
        reranker.ordered(*reranker.rank(query, candidates, similar, retrieved))
        beyond.append(now() - start - (fetched - result))
        finding.append(result - start)
        pairs.append(len(reranker.learn(similar, retrieved).theta))
    return np.array(finding[5:]), np.array(beyond[5:]), float(np.mean(pairs))


def emptied(folder: Path) -> Path:
    """The `folder`, without what an earlier run has left there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def main() -> None:
    """Measures every size of the log and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", required=True, type=Path, help="scratch folder, emptied")
    parser.add_argument(
        "--impressions", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="sizes of the click log"
    )
    parser.add_argument("--documents", type=int, default=20_000, help="number of documents")
    parser.add_argument("--queries", type=int, default=50, help="number of queries")
    arguments = parser.parse_args()
    folder = emptied(arguments.folder)
    vocabulary = words(np.random.default_rng(0), 20_000)
    index = make_index(folder, arguments.documents, vocabulary)
    rows = []
    for impressions in arguments.impressions:
        log, database = folder / f"log-{impressions}.jsonl", folder / f"clicks-{impressions}.db"
        write_log(make_log(vocabulary, arguments.documents, impressions), log)
        clock, start = time.perf_counter(), time.process_time()
        import_log([log], database)
        imported = f"{time.process_time() - start:.1f} s", f"{time.perf_counter() - clock:.1f} s"
        start = time.process_time()
        reranker = RobustBM25(index, clicks=str(database))
        prepared = time.process_time() - start
        distinct = reranker.log.totals().queries
        known = reranker.log.query_texts(np.linspace(1, distinct, arguments.queries // 2 + 5).astype(np.int64))
        rng = np.random.default_rng(3)
        unknown = [" ".join(vocabulary[n] for n in zipf(rng, len(vocabulary), 3)) for _ in range(arguments.queries // 2)]
        finding, beyond, pairs = timed_queries(index, database, [*known, *unknown])
        times = (np.median(finding[:, 0]), np.median(beyond[:, 0]), np.percentile(beyond[:, 0], 95), np.median(beyond[:, 1]))
        sizes = (*imported, f"{database.stat().st_size / 1e6:.0f} MB", f"{prepared:.1f} s")
        rows.append((f"{impressions:,}", f"{distinct:,}", *sizes, *(f"{value:.1f} ms" for value in times), f"{pairs:.0f}"))
        print("\t".join(rows[-1]), flush=True)
        log.unlink()
    header = (
        "impressions",
        "queries",
        "import",
        "(wall)",
        "database",
        "prepare",
        "similar",
        "rerank",
        "95%",
        "(wall)",
        "pairs",
    )
    print(f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(text_table(header, rows, align=">" * len(header)))


if __name__ == "__main__":
    main()
