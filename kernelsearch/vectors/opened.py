"""An index's vectors in use: documents and queries under one name."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Query
from kernelsearch.vectors.queries import QueryVectors
from kernelsearch.vectors.store import DocumentVectors


class Vectors:
    """The vectors of an index's `documents`, and `queries`, a source of query vectors that fit them.

    >>> vectors = index.vectors("minilm")  # doctest: +SKIP
    >>> scores = vectors.scores(query, candidates.docs)  # doctest: +SKIP
    >>> rows, products = vectors.nearest([query], 1000)[0]  # doctest: +SKIP
    """

    def __init__(self, documents: DocumentVectors, queries: QueryVectors) -> None:
        self.documents, self.queries = documents, queries
        self.name = documents.name

    def scores(self, query: Query, docs: NDArray[np.integer]) -> NDArray[np.float32] | None:
        """Inner products of `query` with the documents in the rows `docs`, shape (documents,).

        NaN for documents without a vector; None where the query has none.
        """
        vector = self.queries.find([query])[0]
        return None if vector is None else self.documents.scores(vector, docs)

    def nearest(
        self, queries: Sequence[Query], count: int, *, effort: int | None = None
    ) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """The rows of the `count` documents with the largest inner products for each of `queries`, and these products.

        Both arrays are empty for a query without a vector. `effort` is that of `Neighbours.search`.
        """
        query_vectors = self.queries.find(queries)
        out = [(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))] * len(queries)
        known = [place for place, vector in enumerate(query_vectors) if vector is not None]
        if known:
            vectors = np.stack([vector for vector in query_vectors if vector is not None])
            for place, near in zip(known, self.documents.nearest(vectors, count, effort=effort), strict=True):
                out[place] = near
        return out
