"""What a fusion remembers of its training queries: their words, and the documents that were relevant to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from kernelsearch.core.errors import ArtefactError
from kernelsearch.core.types import Query
from kernelsearch.kernels.documents import Cosine
from kernelsearch.rerankers.base import OpenedIndex

FILE = "memory.jsonl"


@dataclass(frozen=True)
class Memory:
    """Training queries, and the docids that were judged relevant to (or clicked for) each. It belongs to no index."""

    queries: tuple[Query, ...] = ()
    relevant: tuple[tuple[str, ...], ...] = ()

    @classmethod
    def of(cls, queries: Sequence[Query], judged: Mapping[str, Mapping[str, int]]) -> Memory:
        docids = [tuple(docid for docid, grade in judged.get(query.qid, {}).items() if grade > 0) for query in queries]
        kept = [place for place, found in enumerate(docids) if found]
        return cls(tuple(queries[place] for place in kept), tuple(docids[place] for place in kept))

    def lines(self) -> Iterator[str]:
        """The file's lines, one a query."""
        for query, docids in zip(self.queries, self.relevant, strict=True):
            record = {"terms": query.terms, "weights": query.weights, "docids": docids}
            yield json.dumps(record, ensure_ascii=False) + "\n"

    @classmethod
    def read(cls, folder: Path) -> Memory:
        """From a model's folder; empty where the model was made without one."""
        if not (folder / FILE).exists():
            return cls()
        try:
            records = [json.loads(line) for line in (folder / FILE).read_text(encoding="utf-8").splitlines()]
            queries = tuple(Query("", tuple(one["terms"]), tuple(one["weights"])) for one in records)
            return cls(queries, tuple(tuple(one["docids"]) for one in records))
        except (ValueError, KeyError, TypeError, OSError):
            raise ArtefactError(f"{folder / FILE}: damaged; train the model again") from None


class Recollection:
    """A memory at work on one index: which documents similar training queries speak for.

    With `leave_out`, a query doesn't hear itself: features of training queries then look as those of a new one will.
    """

    def __init__(self, index: OpenedIndex, memory: Memory, leave_out: bool) -> None:
        forward, cosine = index.forward, Cosine()
        self.forward, self.leave_out = forward, leave_out
        self.names = np.array([query.qid for query in memory.queries])
        words = [cosine.query_features(forward, query) for query in memory.queries]
        self.words = sparse.vstack(words, format="csr") if words else sparse.csr_matrix((0, len(forward.terms)))
        sizes = np.array([len(docids) for docids in memory.relevant], dtype=np.int64)
        owners = np.repeat(np.arange(len(sizes)), sizes)
        rows = forward.rows_of([docid for docids in memory.relevant for docid in docids])
        known = rows >= 0
        entries: Any = (np.ones(int(known.sum())), (rows[known], owners[known]))
        self.relevant = sparse.csr_matrix(entries, shape=(len(forward), len(sizes)))

    def votes(self, query: Query, power: float) -> NDArray[np.float64]:
        """Σ cos(q, q')^power over the training queries q' that a document was relevant to, shape (documents,)."""
        likeness = (self.words @ Cosine().query_features(self.forward, query).T).toarray().ravel() ** power
        if self.leave_out:
            likeness[self.names == query.qid] = 0.0
        return np.asarray(self.relevant @ likeness)
