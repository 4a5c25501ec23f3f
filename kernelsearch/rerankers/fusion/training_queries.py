"""The judged training queries that are saved with a fusion model, and the votes of those that are similar to a new query."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.errors import ArtefactError, InputError
from kernelsearch.core.reading import json_lines
from kernelsearch.core.types import Query
from kernelsearch.kernels.tfidf import unit_query
from kernelsearch.rerankers.base import OpenedIndex

#: The file in a model's folder. The name belongs to the saved format.
FILE = "memory.jsonl"
#: Queries whose similarities with the training queries are cached.
RECENT_QUERIES = 64


@dataclass(frozen=True)
class TrainingQueries:
    """Training queries, and for each the docids that were judged relevant or clicked."""

    queries: tuple[Query, ...] = ()
    relevant: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, queries: Sequence[Query], judged: Mapping[str, Mapping[str, int]]) -> TrainingQueries:
        """The queries that have relevant documents; `judged` is {qid: {docid: grade}}, a grade above 0 is relevant."""
        docids = [tuple(docid for docid, grade in judged.get(query.qid, {}).items() if grade > 0) for query in queries]
        with_relevant = [number for number, relevant in enumerate(docids) if relevant]
        return cls(tuple(queries[number] for number in with_relevant), tuple(docids[number] for number in with_relevant))

    def lines(self) -> Iterator[str]:
        """The lines of the file, one per query."""
        for query, docids in zip(self.queries, self.relevant, strict=True):
            record = {"terms": query.terms, "weights": query.weights, "docids": docids}
            yield json.dumps(record, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> TrainingQueries:
        """Reads the file of a model's folder; no queries where the model was saved without them.

        Raises ArtefactError where the file is damaged.
        """
        if not (folder / FILE).exists():
            return cls()
        try:
            records = [record for _, record in json_lines(folder / FILE)]
            queries = tuple(Query("", tuple(record["terms"]), tuple(record["weights"])) for record in records)
            return cls(queries, tuple(tuple(record["docids"]) for record in records))
        except (InputError, ValueError, KeyError, TypeError):
            raise ArtefactError("damaged; train the model again", path=folder / FILE) from None


class TrainingVotes:
    """The training queries on one index: how much those that resemble a query vote for each document.

    Parameters
    ----------
    index : the index whose documents are voted for; docids that it doesn't have are ignored
    training : the training queries with their relevant documents
    leave_out : whether a training query gets no vote from itself, so that the features of training queries are distributed
        like those of new queries
    related : whether training queries vote that have a relevant document in common with the query, which must be one of them
        itself; without them a training query gets the votes of a new topic's query, one that nothing was judged for
    """

    def __init__(self, index: OpenedIndex, training: TrainingQueries, leave_out: bool, *, related: bool = True) -> None:
        forward = index.forward
        self.forward, self.leave_out, self.related = forward, leave_out, related
        self.qids = np.array([query.qid for query in training.queries])
        vectors = [unit_query(forward, query) for query in training.queries]
        ends = np.cumsum([0, *(len(terms) for terms, _ in vectors)])
        numbers = np.concatenate([np.zeros(0, dtype=np.int64), *(terms for terms, _ in vectors)])
        values = np.concatenate([np.zeros(0), *(values for _, values in vectors)])
        # Columns are the terms of training queries, so that a query's vector is dense and short.
        self.terms, places = np.unique(numbers, return_inverse=True)
        self.vectors = sparse.csr_matrix((values, places, ends), shape=(len(vectors), len(self.terms)))
        sizes = np.array([len(docids) for docids in training.relevant], dtype=np.int64)
        columns = np.repeat(np.arange(len(sizes)), sizes)
        rows = forward.rows_of([docid for docids in training.relevant for docid in docids])
        known = rows >= 0
        entries = (np.ones(int(known.sum())), (rows[known], columns[known]))
        self.relevant = sparse.csr_matrix(entries, shape=(len(forward), len(sizes)))
        self._by_query = self.relevant.T.tocsr()
        self._recent: dict[Query, NDArray[np.float64]] = {}  # a query's candidates, votes and strength need the same

    def votes(self, query: Query, power: float) -> NDArray[np.float64]:
        """Σ cos(q, q')^power of `query` q over training queries q' that a document was relevant to, shape (documents,)."""
        return np.asarray(self.relevant @ self.similarities(query) ** power)

    def nearness(self, query: Query) -> float:
        """The largest cosine of a training query that votes, from 0 to 1; 0 without training queries."""
        return float(self.similarities(query).max(initial=0.0))

    def similarities(self, query: Query) -> NDArray[np.float64]:
        """cos(q, q') of q = `query` with the training queries q', shape (training queries,); 0 for those that don't vote."""
        similarity = self._recent.get(query)
        if similarity is None:
            if len(self._recent) >= RECENT_QUERIES:
                self._recent.clear()
            similarity = self._recent[query] = self._similarities(query)
        return similarity

    def cosines(self, query: Query) -> NDArray[np.float64]:
        """The cosine of `query` with each training query, shape (training queries,)."""
        terms, values = unit_query(self.forward, query)
        vector = np.zeros(len(self.terms))
        columns = self.terms.searchsorted(terms)
        inside = np.flatnonzero(self.terms.take(columns, mode="clip") == terms) if len(self.terms) else columns[:0]
        vector[columns[inside]] = values[inside]
        return np.asarray(self.vectors @ vector, dtype=np.float64)

    def _similarities(self, query: Query) -> NDArray[np.float64]:
        similarity = self.cosines(query)
        if self.leave_out:
            similarity[self.qids == query.qid] = 0.0
        if not self.related:
            own = self.qids == query.qid
            similarity[(self._by_query @ self._by_query[own].T).toarray().any(axis=1)] = 0.0
        return similarity


def query_key(query: Query) -> str:
    """A short hash of a query's terms and weights, by which a model recognises its training queries."""
    text = "\x1f".join(f"{term}={weight:g}" for term, weight in sorted(zip(query.terms, query.weights, strict=True)))
    return hashlib.blake2b(text.encode("utf-8", errors="replace"), digest_size=6).hexdigest()
