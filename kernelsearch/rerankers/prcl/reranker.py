"""Pseudo-relevance classifiers: Pyserini's PseudoRelevanceClassifierReranker on the forward index, as a baseline.

The list's best documents are taken for relevant, its last for not relevant; a classifier of their words scores the whole list.
Han, Liu, Lin, "The Simplest Thing That Can Possibly Work: (Pseudo-)Relevance Feedback via Text Classification" (2021); the
settings, down to the random seed, are those of `pyserini.search.lucene.reranker`, and so are the scores.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import bm25
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Contribution, Explanation, Reranker
from kernelsearch.rerankers.prcl import RELEVANCE_CLASSIFIER
from kernelsearch.rerankers.prcl.settings import RelevanceClassifierSettings

#: Words in no more documents than this are left out, as in Pyserini.
RARE = 5
TFIDF, BM25 = "TfidfVectorizer", "BM25Vectorizer"
Floats = NDArray[np.float64]

# scikit-learn will drop it (setup.cfg keeps below that version); what it advises instead gives other scores than Pyserini's.
warnings.filterwarnings("ignore", message="The `probability` parameter was deprecated", category=FutureWarning)


class RelevanceClassifier(Reranker[RelevanceClassifierSettings]):
    """Interpolates the first stage's scores with what a classifier learns from the ends of the list."""

    method = RELEVANCE_CLASSIFIER

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Floats:
        learned, first = self._parts(candidates)
        alpha = self.settings.alpha
        return np.mean([one * alpha + first * (1 - alpha) for one in learned], axis=0)

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        learned, first = self._parts(candidates)
        place, alpha = int(np.flatnonzero(candidates.docs == doc)[0]), self.settings.alpha
        parts = [
            Contribution(
                f"classifier {name}", float(alpha * one[place] / len(learned)), f"{one[place]:.4f} of 1, weight {alpha:g}"
            )
            for name, one in zip(self.settings.classifiers, learned, strict=True)
        ]
        parts.append(
            Contribution("first stage", float((1 - alpha) * first[place]), f"{first[place]:.4f} of 1, weight {1 - alpha:g}")
        )
        total = sum(part.value for part in parts)
        return Explanation(self.name, self.index.forward.docids[doc], total, tuple(parts))

    def _parts(self, candidates: Candidates) -> tuple[list[Floats], Floats]:
        """(each classifier's scores, the first stage's), all between 0 and 1."""
        r, n = self.settings.r, self.settings.n
        if not self.settings.alpha:
            raise CannotAct("alpha is 0")
        if candidates.depth <= r + n:
            raise CannotAct(f"no more than r + n = {r + n} documents")
        first = _scaled(np.asarray(candidates.scores, dtype=np.float64))
        vectors = self._vectors(candidates.docs)
        ends = np.r_[0:r, candidates.depth - n : candidates.depth]
        labels = np.r_[np.ones(r, dtype=int), np.zeros(n, dtype=int)]
        learned = []
        for name in self.settings.classifiers:
            classifier = _classifier(name).fit(vectors[ends], labels)
            learned.append(_scaled(classifier.predict_proba(vectors)[:, 1]))
        return learned, first

    def _vectors(self, docs: NDArray[np.int32]) -> Any:
        """Weighted words of documents as CSR with rows of length 1, shape (documents, words that occur in them)."""
        from scipy import sparse
        from sklearn.preprocessing import normalize

        forward = self.index.forward
        indptr, places = forward.gather(docs)
        rows = np.repeat(np.arange(len(docs)), np.diff(indptr))
        kept = forward.df[forward.indices[places]] > RARE
        rows, places = rows[kept], places[kept]
        terms, columns = np.unique(forward.indices[places], return_inverse=True)
        counts, df = forward.frequencies[places], forward.df[forward.indices[places]]
        if self.settings.vectorizer == TFIDF:
            weights = counts * np.log(len(forward) / df)
        else:
            factor = bm25.length_factor(forward.norm_lengths[docs], float(forward.statistics.average_length), 0.9, 0.4)
            weight = bm25.idf(df, forward.statistics.documents)
            weights = (weight - weight / (np.float32(1) + counts.astype(np.float32) * factor[rows])).astype(np.float64)
        return normalize(sparse.csr_matrix((weights, (rows, columns)), shape=(len(docs), len(terms))))


def _classifier(name: str) -> Any:
    if name == "lr":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(random_state=42)
    from sklearn.svm import SVC

    return SVC(kernel="linear", probability=True, random_state=42)


def _scaled(scores: Floats) -> Floats:
    low, width = scores.min(), np.ptp(scores)
    if not width:
        raise CannotAct("all scores are equal")
    return (scores - low) / width
