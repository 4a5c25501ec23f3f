"""An index's vectors in use: documents and queries under one name."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Query
from kernelsearch.vectors.queries import QueryVectors
from kernelsearch.vectors.store import DocumentVectors

#: Rows of the nearest documents, best first, and their inner products.
Near = tuple[NDArray[np.int32], NDArray[np.float32]]
#: Queries whose nearest documents are cached, the oldest first to go, but at least those of the last call.
CACHED = 32


class Vectors:
    """The vectors of an index's `documents`, and `queries`, a source of query vectors that fit them.

    >>> vectors = index.vectors("minilm")  # doctest: +SKIP
    >>> scores = vectors.scores(query, candidates.docs)  # doctest: +SKIP
    >>> rows, products = vectors.nearest([query], 1000)[0]  # doctest: +SKIP
    """

    def __init__(self, documents: DocumentVectors, queries: QueryVectors) -> None:
        self.documents, self.queries = documents, queries
        self.name = documents.name
        self._near: OrderedDict[Query, tuple[int, Near]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Vectors, (self.documents, self.queries)

    def scores(self, query: Query, docs: NDArray[np.integer]) -> NDArray[np.float32] | None:
        """Inner products of `query` with the documents in the rows `docs`, shape (documents,).

        NaN for documents without a vector; None where the query has none.
        """
        vector = self.queries.find([query])[0]
        return None if vector is None else self.documents.scores(vector, docs)

    def nearest(self, queries: Sequence[Query], count: int) -> list[Near]:
        """The rows of the `count` documents with the largest inner products for each of `queries`, and these products.

        Both arrays are empty for a query without a vector. Those of the last queries are cached, because a query may need them
        several times: ask for the most documents first.
        """
        with self._lock:
            known = {query: self._near[query] for query in queries if query in self._near}
        missing = [query for query in dict.fromkeys(queries) if query not in known or known[query][0] < count]
        if missing:
            known.update((query, (count, near)) for query, near in zip(missing, self._search(missing, count), strict=True))
            with self._lock:
                for query in missing:
                    self._near.pop(query, None)  # so that it is the newest
                    self._near[query] = known[query]
                while len(self._near) > max(CACHED, len(missing)):
                    self._near.popitem(last=False)
        return [(rows[:count], products[:count]) for _, (rows, products) in (known[query] for query in queries)]

    def _search(self, queries: Sequence[Query], count: int) -> list[Near]:
        """As `nearest`, without the cache."""
        query_vectors = self.queries.find(queries)
        out: list[Near] = [(np.empty(0, dtype=np.int32), np.empty(0, dtype=np.float32))] * len(queries)
        known = [place for place, vector in enumerate(query_vectors) if vector is not None]
        if known:
            vectors = np.stack([vector for vector in query_vectors if vector is not None])
            for place, near in zip(known, self.documents.nearest(vectors, count), strict=True):
                out[place] = near
        return out
