"""Pseudo-relevance classifiers: Pyserini's baseline on the forward index."""

from kernelsearch.rerankers.prcl.settings import RelevanceClassifierSettings
from kernelsearch.rerankers.registry import Method

RELEVANCE_CLASSIFIER = Method(
    "prcl",
    "classifiers of pseudo-relevant documents, Pyserini's (a baseline)",
    RelevanceClassifierSettings,
    "kernelsearch.rerankers.prcl.reranker:RelevanceClassifier",
    feedback=True,
)
METHODS = (RELEVANCE_CLASSIFIER,)
