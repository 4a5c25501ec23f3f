"""Searching some shards with the scores of the whole collection: statistics are exchanged once, and lists are merged.

Of the shards that it doesn't hold, a process needs only the statistics that scores are computed from: how many documents
and tokens there are, and the document and collection frequency of each term. `WholeStatistics` is that record, memory-mapped;
`ShardSearcher` searches some shards with it and gives the scores of the whole collection; `merge_lists` makes one list of
several.

    whole = WholeStatistics.of(index.lucene, index.forward)     # where all shards can be read; or, where they can't,
    whole = merge_statistics(records)                           # from the records of the shards, each made where its shard is
    whole.save(place); whole = WholeStatistics.load(place)
    part = ShardSearcher([shards[2], shards[3]], whole)                  # in a process, once
    lists = part.search(queries, 1000)                          # rows and scores of the whole collection
    merge_lists([lists[0], others[0]], forward.docid_rank, 1000)  # with another process's list: that of the whole index

RM3 and Rocchio learn from the best documents of the whole collection: expand queries where all shards are open
(`LuceneIndex.expand`) and search the expanded queries here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts, invariants
from kernelsearch.core.errors import ArtefactError, IndexProblem
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex, Statistics, StringTable, merge_terms
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import CONTENTS, LuceneIndex, similarity
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.lucene.shards import Source, collection_fingerprint, index_fingerprint

KIND = "collection statistics"
VERSION = 1


@dataclass(frozen=True)
class WholeStatistics:
    """The statistics of a whole collection that scores are computed from, of the field that is searched."""

    statistics: Statistics  #: documents, tokens and postings
    shards: tuple[tuple[str, int], ...]  #: (fingerprint, rows) of each shard, in the collection's order
    terms: StringTable  #: sorted by their UTF-8 bytes
    df: NDArray[np.integer]  #: documents with each term
    cf: NDArray[np.integer]  #: occurrences of each term

    @classmethod
    def of(cls, lucene: LuceneIndex, forward: ForwardIndex) -> WholeStatistics:
        """From an opened index, sharded or not, and its forward index: `WholeStatistics.of(index.lucene, index.forward)`."""
        rows = np.diff(lucene.starts).tolist()
        shards = tuple(zip(map(index_fingerprint, lucene.shards.paths), rows, strict=True))
        return cls(forward.statistics, shards, forward.terms, forward.df, forward.cf)

    @property
    def rows(self) -> int:
        """Rows of the collection, deleted documents included."""
        return sum(rows for _, rows in self.shards)

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the whole collection."""
        return collection_fingerprint([fingerprint for fingerprint, _ in self.shards])

    def start(self, fingerprint: str) -> int | None:
        """The collection's row at which the shard with this `fingerprint` begins; None where it has no such shard."""
        start = 0
        for known, rows in self.shards:
            if known == fingerprint:
                return start
            start += rows
        return None

    def save(self, path: str | Path) -> None:
        """Writes the record as the artefact `path`, some ten bytes per term and the terms themselves."""
        data, ends = self.terms.arrays
        artefacts.save(
            path,
            KIND,
            VERSION,
            fingerprint=self.fingerprint,
            extra={"statistics": asdict(self.statistics), "shards": self.shards},
            arrays={"term_bytes": data, "term_ends": ends, "df": self.df, "cf": self.cf},
        )

    @classmethod
    def load(cls, path: str | Path) -> WholeStatistics:
        """Opens the record `path`, memory-mapped. Raises ArtefactError where it is missing or damaged."""
        meta, arrays = artefacts.load(path, KIND, VERSION, validate=validate)
        try:
            statistics = Statistics(**meta["extra"]["statistics"])
            shards = tuple((str(fingerprint), int(rows)) for fingerprint, rows in meta["extra"]["shards"])
            terms = StringTable(np.asarray(arrays["term_bytes"]), np.asarray(arrays["term_ends"]))
            return cls(statistics, shards, terms, np.asarray(arrays["df"]), np.asarray(arrays["cf"]))
        except (KeyError, TypeError, ValueError) as problem:
            raise ArtefactError(f"{path}: damaged, no {problem}; make the {KIND} again") from None


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for a record (`meta`) whose `arrays` don't fit each other."""
    invariants.require_offsets("term_ends", arrays["term_ends"], len(arrays["term_bytes"]), first=False)
    for name in ("df", "cf"):
        invariants.require_length(name, arrays[name], len(arrays["term_ends"]))
        invariants.require_range(name, arrays[name], 0, 2**63)


def merge_statistics(parts: Sequence[WholeStatistics]) -> WholeStatistics:
    """The record of a collection from `parts`, those of its shards, in their order.

    Raises IndexProblem for a shard that is there twice. Documents that are in two shards are not noticed here, but when the
    collection's forward index is made.
    """
    shards = tuple(shard for part in parts for shard in part.shards)
    if len({fingerprint for fingerprint, _ in shards}) < len(shards):
        raise IndexProblem("statistics of the same shard are to be merged twice")
    merged = merge_terms([part.terms for part in parts])
    df, cf = merged.total([part.df for part in parts]), merged.total([part.cf for part in parts])
    statistics = Statistics(*(sum(values) for values in zip(*(astuple(part.statistics) for part in parts), strict=True)))
    return WholeStatistics(statistics, shards, merged.terms, df, cf)


class ShardSearcher:
    """Some shards of a collection, opened for searching with the whole collection's statistics. Thread-safe.

    `shards` names them, `whole` are the statistics, `language` is that of queries (default: the index's).
    """

    def __init__(self, shards: Source, whole: WholeStatistics, *, language: str | None = None) -> None:
        self.whole = whole
        self.lucene = LuceneIndex(shards, language=language)
        starts = [whole.start(index_fingerprint(path)) for path in self.lucene.shards.paths]
        for path, start in zip(self.lucene.shards.paths, starts, strict=True):
            if start is None:
                raise IndexProblem(f"{path}: not a shard of the collection that these statistics describe, or changed since")
        #: What is added to a shard's rows to make them the collection's.
        self._shifts = np.array(starts, dtype=np.int64) - self.lucene.starts[:-1]

    @jvm.calls_java
    def search(
        self,
        queries: Sequence[Query],
        hits: int = 1000,
        *,
        model: Model = BM25Model(),  # noqa: B008  an immutable value
        threads: int = 1,
    ) -> list[Candidates]:
        """The best `hits` documents of each of `queries` among these shards: rows, scores and ties are the whole collection's.

        `model` and `threads` are those of `LuceneIndex.search`.
        """
        if not queries:
            return []
        lists = self.lucene.search_with(self._searcher(queries, model), queries, hits, threads)
        return [Candidates(self._in_whole(ranked.docs), ranked.scores) for ranked in lists]

    def _in_whole(self, docs: NDArray[np.int32]) -> NDArray[np.int32]:
        shard = np.searchsorted(self.lucene.starts, docs, side="right") - 1
        rows: NDArray[np.int32] = (docs + self._shifts[shard]).astype(np.int32 if self.whole.rows < 1 << 31 else np.int64)
        return rows

    @jvm.calls_java
    def _searcher(self, queries: Sequence[Query], model: Model) -> Any:
        """A searcher (Java) with statistics of the terms of these queries: copying a whole vocabulary to Java takes long."""
        whole = self.whole
        terms = list(dict.fromkeys(term for query in queries for term in query.terms))
        places = [(term, place) for term in terms if (place := whole.terms.find_sorted(term)) >= 0]
        known = "\n".join(f"{term}\t{int(whole.df[place])}\t{int(whole.cf[place])}" for term, place in places)
        counts = [whole.rows, *astuple(whole.statistics)]
        packed = known.encode("utf-8", errors="replace")
        return jvm.bridge().partSearcher(self.lucene.reader, similarity(model), CONTENTS, counts, packed)


def merge_lists(lists: Sequence[Candidates], docid_rank: NDArray[np.integer], hits: int) -> Candidates:
    """The best `hits` of several lists of different documents, ties in docid order.

    `docid_rank` (rows,) is each document's place when docids are sorted: the collection's `forward.docid_rank`.
    """
    docs = np.concatenate([ranked.docs for ranked in lists])
    scores = np.concatenate([ranked.scores for ranked in lists])
    best = np.lexsort((docid_rank[docs], -scores))[:hits]
    return Candidates(docs[best], scores[best])
