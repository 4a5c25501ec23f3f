"""CPU time of vectors in one warm process, beside FAISS: scores of candidates, nearest documents, and `auto` with and without.

    OMP_NUM_THREADS=1 python -m tools.bench.vectors --index indexes/scifact --topics topics.tsv --vectors.queries topics.npz

All ways to search take turns within a round, so that a busy machine slows them alike; queries come one by one. The plain
hybrid adds the min-max scores of BM25's list and FAISS's list of 1,000 documents each. Query vectors are read from a file.
The table has the median over rounds of the milliseconds per query.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

import faiss
import numpy as np

import kernelsearch
from kernelsearch.core.tables import text_table
from kernelsearch.core.types import Query
from kernelsearch.trec import read_topics

DEPTH = 1000


def make_systems(index: kernelsearch.Index, queries: list[Query], name: str | None) -> dict[str, Callable[[Query], object]]:
    """What is measured, by label: a function of one query.

    `queries` are those that will be asked for, `name` is that of the vectors of `index` (None: the only ones).
    """
    vectors = index.vectors(name)
    flat = faiss.IndexFlatIP(vectors.documents.dims)
    flat.add(np.asarray(vectors.documents.matrix, dtype=np.float32))
    candidates: np.ndarray = np.resize(np.random.default_rng(0).permutation(len(index.forward)), DEPTH)
    result = zip(queries, vectors.queries.find(queries), strict=True)
    table = {query.qid: vector for query, vector in result if vector is not None}
    words, hybrid = (index.pipeline({"auto": {"vectors": value}}, hits=DEPTH) for value in ("none", vectors.name))
    dense = index.pipeline({"dense": {"vectors": vectors.name, "retrieve": DEPTH}}, hits=DEPTH)
    bm25 = index.pipeline(hits=DEPTH)

    def plain_hybrid(query: Query) -> object:
        listed = bm25.search([query])[0]
        products, rows = flat.search(table[query.qid][None], DEPTH)
        docs = np.union1d(listed.docs, rows[0])
        total = np.zeros(len(docs))
        for result, scores in ((listed.docs, np.asarray(listed.scores, dtype=np.float64)), (rows[0], products[0])):
            if len(result):
                total[np.searchsorted(docs, result)] += (scores - scores.min()) / max(float(np.ptp(scores)), 1e-12)
        return docs[np.argsort(-total)][:DEPTH]

    return {
        f"scores of {DEPTH} candidates": lambda query: vectors.scores(query, candidates),
        f"nearest {DEPTH} documents": lambda query: vectors.nearest([query], DEPTH),
        f"FAISS IndexFlatIP, nearest {DEPTH} documents": lambda query: flat.search(table[query.qid][None], DEPTH),
        "BM25": lambda query: bm25.search([query]),
        "dense": lambda query: dense.search([query]),
        "plain hybrid of BM25 and FAISS": plain_hybrid,
        "auto, words alone": lambda query: words.search([query]),
        "auto with vectors": lambda query: hybrid.search([query]),
    }


def cpu_milliseconds(system: Callable[[Query], object], queries: list[Query]) -> float:
    """Processor time of `system` per query of `queries`, in milliseconds, Java included."""
    began = time.process_time()
    for query in queries:
        system(query)
    return 1000 * (time.process_time() - began) / len(queries)


def main() -> None:
    """Measures and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on, with vectors")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--vectors.queries", dest="queries", required=True, help="file of query vectors with topic ids")
    parser.add_argument("--vectors.name", dest="name", help="the vectors; default: the only ones of the index")
    parser.add_argument("--rounds", type=int, default=3, help="timed rounds after one that isn't counted")
    # More queries than a fusion caches tables of, or the second round would measure the cache.
    parser.add_argument("--number", type=int, default=60, help="number of topics, from the first on")
    arguments = parser.parse_args()
    faiss.omp_set_num_threads(1)
    index = kernelsearch.open(arguments.index, vectors={"queries": arguments.queries})
    topics = dict(list(read_topics(arguments.topics).items())[: arguments.number])
    queries = index.lucene.queries(list(topics.values()), list(topics))
    systems = make_systems(index, queries, arguments.name)
    times: dict[str, list[float]] = {label: [] for label in systems}
    for number in range(arguments.rounds + 1):
        for label, system in systems.items():
            spent = cpu_milliseconds(system, queries)
            if number:
                times[label].append(spent)
    medians = {label: statistics.median(values) for label, values in times.items()}
    ratio = [hybrid / words for hybrid, words in zip(times["auto with vectors"], times["auto, words alone"], strict=True)]
    rows = [(label, f"{value:.2f}") for label, value in medians.items()]
    rows.append(("auto with vectors : auto, words alone", f"{statistics.median(ratio):.2f}"))
    print(text_table((f"{len(index.forward)} documents, {len(queries)} queries", "CPU ms per query"), rows))


if __name__ == "__main__":
    main()
