"""`dense`: ranks documents by the inner product of their vectors with the query's; a cosine if vectors have unit length.

This is the baseline for methods that use vectors. With `retrieve` it is dense retrieval: the nearest documents of the whole
collection are added to the list, including documents that share no word with the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import (
    DEFAULT_CONTEXT,
    CannotAct,
    Context,
    Contribution,
    Explanation,
    OpenedIndex,
    Reranker,
)
from kernelsearch.rerankers.dense import DENSE
from kernelsearch.rerankers.dense.settings import DenseSettings

#: Dimensions that an explanation lists.
SHOWN_DIMENSIONS = 5

NO_QUERY_VECTOR = "the query has no vector"
NO_DOCUMENT_VECTOR = "no document of the list has a vector"


class KernelDense(Reranker[DenseSettings]):
    """Ranks by vectors. Documents without a vector follow those with one, in the order of the list that they came in."""

    method = DENSE

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self.vectors = index.vectors(self.settings.vectors)
        self.vectors.queries.require()

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The inner product of each candidate with the query, shape (candidates,)."""
        scores = self.vectors.scores(query, candidates.docs)
        if scores is None:
            raise CannotAct(NO_QUERY_VECTOR)
        missing = np.isnan(scores)
        if not missing.any():
            return scores
        if missing.all():
            raise CannotAct(NO_DOCUMENT_VECTOR)
        below = np.nanmin(scores).astype(np.float64) - 1
        out = scores.astype(np.float64)
        out[missing] = below - np.arange(int(missing.sum())) / candidates.depth
        return out

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists; with `retrieve`, the nearest documents of all queries are found in one call."""
        if not self.settings.retrieve:
            return super().apply_batch(queries, lists, context)
        merged = zip(queries, self._with_nearest(queries, lists), strict=True)
        return [self.rescore(query, listed, context).top(context.hits) for query, listed in merged]

    def _with_nearest(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[Candidates]:
        """The lists with the nearest documents that `retrieve` asks for, which are found in one call.

        Rows alone matter to `score`; added documents come after the list's, so that the list's order is kept among those
        without a vector.
        """
        out = []
        nearest = self.vectors.nearest(queries, self.settings.retrieve)
        for listed, (docs, _) in zip(lists, nearest, strict=True):
            new = np.setdiff1d(docs[self.index.forward.live[docs]], listed.docs)
            added = np.full(len(new), listed.scores.min() if listed.depth else 0.0)
            out.append(Candidates(np.concatenate([listed.docs, new]), np.concatenate([listed.scores, added])))
        return out

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The inner product, taken apart by the dimensions that contribute most."""
        vector = self.vectors.queries.find([query])[0]
        if vector is None:
            raise CannotAct(NO_QUERY_VECTOR)
        docid = self.index.forward.docids[doc]
        notes: dict[str, Any] = {"vectors": self.vectors.name, "dimensions": self.vectors.documents.dims}
        (listed,) = self._with_nearest([query], [candidates]) if self.settings.retrieve else (candidates,)
        score = float(self.score(query, listed, context)[self.place_of(listed, doc)])
        if not self.vectors.documents.present[doc]:
            return Explanation(self.name, docid, score, (Contribution("the document has no vector", score),), notes)
        own = self.vectors.documents.take(np.array([doc]))[0].astype(np.float64)
        products = own * vector.astype(np.float64)
        strongest = np.argsort(-np.abs(products), kind="stable")[:SHOWN_DIMENSIONS]
        parts = [Contribution(f"dimension {place + 1}", float(products[place])) for place in strongest]
        if len(products) > len(strongest):
            rest = score - float(products[strongest].sum())
            parts.append(Contribution(f"{len(products) - len(strongest)} other dimensions", rest))
        lengths = float(np.linalg.norm(own) * np.linalg.norm(vector))
        notes["cosine"] = float(products.sum() / lengths) if lengths else 0.0
        whole = Contribution(
            f"inner product of vectors {self.vectors.name}", score, f"cosine {notes['cosine']:.4f}", tuple(parts)
        )
        return Explanation(self.name, docid, score, (whole,), notes)
