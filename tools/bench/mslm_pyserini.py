"""The pyserini side of tools.bench.mslm, run by a Python that has the full pyserini.

Reads the index, the queries, how few of them PRCL answers, and the depths as one JSON line, prepares, then answers every
further line, `SYSTEM DEPTH`, with the milliseconds per query that the system took, on the clock and on the processor.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time

from tools.bench.probes import start_java
from tools.reproduce.prcl_runs import CachedVectorizer

#: PRCL's default: the first 10 documents are positive, the last 100 negative. A list of 100 has 90 left.
POSITIVE, NEGATIVE = 10, 100


def main() -> None:
    """Answers the lines of standard input."""
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    # Java and the vectorizer print where they like: the answers get a channel of their own.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    start_java()
    from pyserini.search.lucene import LuceneSearcher
    from pyserini.search.lucene.reranker import ClassifierType, PseudoRelevanceClassifierReranker

    request = json.loads(sys.stdin.readline())
    queries = request["queries"]
    bm25, rm3 = LuceneSearcher(request["index"]), LuceneSearcher(request["index"])
    bm25.set_bm25(0.9, 0.4)
    rm3.set_bm25(0.9, 0.4)
    rm3.set_rm3()
    prcl = PseudoRelevanceClassifierReranker(request["index"], "TfidfVectorizer", [ClassifierType.LR])
    plain, cached = prcl.vectorizer, CachedVectorizer(prcl.vectorizer)
    lists = {depth: [bm25.search(query, k=depth) for query in queries] for depth in request["depths"]}

    def classify(depth: int, vectorizer) -> int:
        prcl.vectorizer = vectorizer
        few = lists[depth][: request["few"]]
        for hits in few:
            prcl.r, prcl.n = POSITIVE, min(NEGATIVE, len(hits) - POSITIVE)
            prcl.rerank([hit.docid for hit in hits], [hit.score for hit in hits])
        return len(few)

    #: Each answers its queries and says how many they were.
    systems = {
        "rm3": lambda depth: len([rm3.search(query, k=depth) for query in queries]),
        "prcl": lambda depth: classify(depth, plain),
        "prcl-kept": lambda depth: classify(depth, cached),
    }
    print(json.dumps("ready"), file=answers, flush=True)
    for line in sys.stdin:
        name, depth = line.split()
        begun = time.perf_counter(), time.process_time()
        count = systems[name](int(depth))
        ended = time.perf_counter(), time.process_time()
        print(json.dumps([1000 * (b - a) / count for a, b in zip(begun, ended, strict=True)]), file=answers, flush=True)


if __name__ == "__main__":
    main()
