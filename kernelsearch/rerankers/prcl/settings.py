"""Options of `prcl`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option

#: Pyserini's names of the term weights.
TFIDF, BM25 = "TfidfVectorizer", "BM25Vectorizer"


@dataclass(frozen=True, kw_only=True)
class RelevanceClassifierSettings(Settings):
    """Options of `prcl`."""

    owner: ClassVar[str] = "prcl"

    classifiers: tuple[str, ...] = option(
        ("lr",), "classifiers to average: logistic regression (lr), linear support vector machine (svm)", choices=("lr", "svm")
    )
    vectorizer: str = option(TFIDF, "term weights of the documents, by Pyserini's names", choices=(TFIDF, BM25))
    r: int = option(10, "number of documents at the top of the list that are assumed relevant", low=1)
    n: int = option(100, "number of documents at the end of the list that are assumed not relevant", low=1)
    alpha: float = option(0.5, "weight of the classifiers against the first stage", low=0, high=1)
