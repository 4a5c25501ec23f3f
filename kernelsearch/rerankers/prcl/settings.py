"""Options of `prcl`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class RelevanceClassifierSettings(Settings):
    """Options of `prcl`."""

    owner: ClassVar[str] = "prcl"

    classifiers: tuple[str, ...] = option(("lr",), "logistic regression, linear SVM or both", choices=("lr", "svm"))
    vectorizer: str = option("TfidfVectorizer", "weights of words", choices=("TfidfVectorizer", "BM25Vectorizer"))
    r: int = option(10, "best documents, taken for relevant", low=1)
    n: int = option(100, "last documents, taken for not relevant", low=1)
    alpha: float = option(0.5, "weight of the classifier", low=0, high=1)
