"""Merging the forward indexes of a collection's shards; the result equals an export of the whole collection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.postings import Scan
from kernelsearch.forward.index import ForwardIndex, StringTable


@dataclass(frozen=True)
class MergedTerms:
    """The union of several vocabularies, sorted by UTF-8 bytes, and the new number of each vocabulary's terms."""

    terms: StringTable
    numbers: tuple[NDArray[np.int32], ...]  #: per vocabulary, the number in `terms` of each of its terms

    def total(self, counts: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        """Returns the sums of counts per term over all vocabularies, shape (terms,); `counts` has one array per vocabulary."""
        out = np.zeros(len(self.terms), dtype=np.int64)
        for numbers, values in zip(self.numbers, counts, strict=True):
            out[numbers] += values  # numbers are distinct within a vocabulary
        return out


def merge_terms(vocabularies: Sequence[StringTable]) -> MergedTerms:
    """Merges vocabularies that are sorted by UTF-8 bytes."""
    raw = [term for terms in vocabularies for term in terms.all_raw()]
    # Linear time: Python's sort detects sorted runs and merges them.
    order = sorted(range(len(raw)), key=raw.__getitem__)
    new = np.array([place == 0 or raw[order[place - 1]] != raw[row] for place, row in enumerate(order)], dtype=bool)
    numbers = np.empty(len(raw), dtype=np.int32)
    numbers[order] = np.cumsum(new) - 1
    distinct = [raw[order[place]] for place in np.flatnonzero(new).tolist()]
    ends = np.cumsum([len(term) for term in distinct], dtype=np.int64)
    table = StringTable(np.frombuffer(b"".join(distinct), np.uint8), ends)
    return MergedTerms(table, tuple(np.split(numbers, np.cumsum([len(terms) for terms in vocabularies])[:-1])))


class MergedSource:
    """A `PostingsSource` over the forward indexes of a collection's shards, whose rows follow each other."""

    def __init__(self, shards: Sequence[ForwardIndex]) -> None:
        self._shards = shards
        self._merged = merge_terms([shard.terms for shard in shards])
        self._starts = np.concatenate([[0], np.cumsum([len(shard) for shard in shards])]).tolist()

    def scan(self) -> Scan:
        """Returns the merged vocabulary, its statistics and the size of every row."""
        shards, merged = self._shards, self._merged
        data, ends = merged.terms.arrays
        return Scan(
            term_bytes=data,
            term_sizes=np.diff(ends, prepend=0).astype(np.int32),
            df=merged.total([shard.df for shard in shards]).astype(np.int32),
            cf=merged.total([shard.cf for shard in shards]),
            distinct=np.concatenate([np.diff(shard.indptr) for shard in shards]).astype(np.int32),
            lengths=np.concatenate([shard.lengths for shard in shards]),
            norms=np.concatenate([shard.norms for shard in shards]),
            live=np.concatenate([shard.live for shard in shards]),
        )

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Returns term numbers, frequencies and positions of documents start..end-1.

        No positions without `positions`; `scan` isn't used. Rows stay sorted by term, because the merged numbers ascend with a
        shard's own.
        """
        blocks = []
        for place, first, last in self._spans(start, end):
            terms, frequencies, where = self._shards[place].stored(first, last)
            blocks.append((self._merged.numbers[place][terms], frequencies.astype(np.int32), where))
        terms, frequencies, where = (np.concatenate(column) for column in zip(*blocks, strict=True))
        return terms, frequencies, where if positions else where[:0]

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        """Returns the docids of documents start..end-1: UTF-8 bytes and sizes."""
        slices = [self._shards[place].docids.slice(first, last) for place, first, last in self._spans(start, end)]
        data, sizes = (np.concatenate(column) for column in zip(*slices, strict=True))
        return data, sizes.astype(np.int32)

    def _spans(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """(shard, first row, last row + 1) of the shards that have rows start..end-1, in the shards' own rows."""
        return [
            (place, max(start - begin, 0), min(end, self._starts[place + 1]) - begin)
            for place, begin in enumerate(self._starts[:-1])
            if start < self._starts[place + 1] and end > begin
        ]
