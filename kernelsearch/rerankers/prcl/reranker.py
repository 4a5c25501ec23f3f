"""`prcl`: pseudo-relevance classifiers, Pyserini's PseudoRelevanceClassifierReranker on the forward index, as a baseline.

The list's first documents are taken as relevant, its last as not relevant; a classifier of their terms scores the whole list.
Han, Liu, Lin, "The Simplest Thing That Can Possibly Work: (Pseudo-)Relevance Feedback via Text Classification" (2021). Settings
and scores are those of `pyserini.search.lucene.reranker`, the random seed included.
"""

from __future__ import annotations

import threading
import warnings
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import ranking_models
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, Reranker
from kernelsearch.rerankers.prcl import RELEVANCE_CLASSIFIER
from kernelsearch.rerankers.prcl.settings import TFIDF, RelevanceClassifierSettings

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression
    from sklearn.svm import SVC

#: Terms in at most this many documents are left out, as in Pyserini.
RARE = 5
#: Pyserini's BM25 parameters of the vectors.
K1, B = 0.9, 0.4
#: Pyserini's seed.
SEED = 42

Floats = NDArray[np.float64]

#: `warnings.catch_warnings` changes settings of the process, so one thread at a time uses it.
_warning_filters = threading.Lock()


class RelevanceClassifier(Reranker[RelevanceClassifierSettings]):
    """Interpolates the first stage's scores with the probabilities of classifiers that are trained on both ends of the list."""

    method = RELEVANCE_CLASSIFIER

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Floats:
        """The mean over the classifiers of alpha · probability + (1 - alpha) · first-stage score, all scaled to 0..1."""
        probabilities, first = self.scaled_scores(candidates)
        alpha = self.settings.alpha
        return np.asarray(np.mean([scores * alpha + first * (1 - alpha) for scores in probabilities], axis=0))

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """Each classifier's part of the document's score, and the first stage's."""
        from kernelsearch.rerankers.prcl.explanation import explain

        return explain(self, candidates, doc)

    def scaled_scores(self, candidates: Candidates) -> tuple[list[Floats], Floats]:
        """(each classifier's probabilities, the first stage's scores), each of shape (candidates,) and scaled to 0..1.

        Raises CannotAct where the list is too short, all scores are equal, or the documents have no term that can be used.
        """
        r, n = self.settings.r, self.settings.n
        if not self.settings.alpha:
            raise CannotAct("alpha is 0")
        if candidates.depth <= r + n:
            raise CannotAct(f"no more than r + n = {r + n} documents")
        first = _scaled(np.asarray(candidates.scores, dtype=np.float64))
        vectors = self._vectors(candidates.docs)
        ends = np.r_[0:r, candidates.depth - n : candidates.depth]
        labels = np.r_[np.ones(r, dtype=int), np.zeros(n, dtype=int)]
        classifiers = [_fitted(name, vectors[ends], labels) for name in self.settings.classifiers]
        return [_scaled(classifier.predict_proba(vectors)[:, 1]) for classifier in classifiers], first

    def _vectors(self, docs: NDArray[np.int32]) -> sparse.csr_matrix:
        """Weighted terms of documents with rows of length 1, shape (documents, terms that occur in them)."""
        from sklearn.preprocessing import normalize

        forward = self.index.forward
        indptr, places = forward.gather(docs)
        rows = np.repeat(np.arange(len(docs)), np.diff(indptr))
        frequent = forward.df[forward.indices[places]] > RARE
        rows, places = rows[frequent], places[frequent]
        if not len(places):
            raise CannotAct(f"no term of its documents is in more than {RARE} documents")
        terms, columns = np.unique(forward.indices[places], return_inverse=True)
        counts, df = forward.frequencies[places], forward.df[forward.indices[places]]
        if self.settings.vectorizer == TFIDF:
            weights = counts * np.log(len(forward) / df)
        else:
            factor = ranking_models.length_factor(forward.norm_lengths[docs], float(forward.statistics.average_length), K1, B)
            idf = ranking_models.idf(df, forward.statistics.documents)
            weights = (idf - idf / (np.float32(1) + counts.astype(np.float32) * factor[rows])).astype(np.float64)
        return normalize(sparse.csr_matrix((weights, (rows, columns)), shape=(len(docs), len(terms))))


def _fitted(name: str, vectors: sparse.csr_matrix, labels: NDArray[np.int64]) -> LogisticRegression | SVC:
    """A classifier, `lr` or `svm`, fitted to vectors (documents, terms) and labels (documents,)."""
    if name == "lr":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(random_state=SEED).fit(vectors, labels)
    from sklearn.svm import SVC

    # `probability` will go (setup.cfg stays below that version); what scikit-learn advises instead gives other scores than
    # Pyserini's.
    with _warning_filters, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The `probability` parameter was deprecated", category=FutureWarning)
        return SVC(kernel="linear", probability=True, random_state=SEED).fit(vectors, labels)


def _scaled(scores: Floats) -> Floats:
    """Scores scaled linearly to 0..1; raises CannotAct where they are all equal."""
    low, width = scores.min(), np.ptp(scores)
    if not width:
        raise CannotAct("all scores are equal")
    return np.asarray((scores - low) / width)
