"""A peer's library in a process of its own, for tools/bench/speed.py: one repetition per line of its standard input.

    python tools/bench/speed_peers.py bm25s|gensim FOLDER

Imports nothing of kernelsearch, because the environment of the peers does not have it. The folder holds what
`tools.bench.speed` has written. A repetition is answered with its CPU time in seconds; the first ones, while code is compiled,
are the caller's to leave out.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HITS = 1000


def bm25s_search(folder: Path) -> Callable[[], Any]:
    """BM25 of bm25s with its default scoring: queries one by one, tokenised like the documents."""
    import bm25s

    texts = [json.loads(line)["contents"] for line in (folder / "corpus" / "corpus.jsonl").open(encoding="utf-8")]
    queries = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
    retriever = bm25s.BM25()
    retriever.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)

    def run() -> None:
        for query in queries:
            retriever.retrieve(bm25s.tokenize(query, show_progress=False), k=HITS, show_progress=False)

    return run


def gensim_basis(folder: Path) -> Callable[[], Any]:
    """gensim's LsiModel of the same weighted matrix."""
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LsiModel
    from scipy import sparse

    matrix = sparse.load_npz(folder / "matrix.npz")
    dims = int((folder / "dims.txt").read_text())
    return lambda: LsiModel(Sparse2Corpus(matrix, documents_columns=False), num_topics=dims)


PEERS = {"bm25s": bm25s_search, "gensim": gensim_basis}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", choices=tuple(PEERS), help="the library to measure")
    parser.add_argument("folder", type=Path, help="the folder that tools.bench.speed has written")
    arguments = parser.parse_args()
    run = PEERS[arguments.peer](arguments.folder)
    print("ready", flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        run()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
