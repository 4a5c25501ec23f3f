"""One forward index from those of a collection's shards, the same as if it had been exported in one piece."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.postings import Scan
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.forward.strings import StringTable


@dataclass(frozen=True)
class MergedTerms:
    """The vocabulary of several, sorted by UTF-8 bytes, and what each one's term numbers become in it."""

    terms: StringTable
    numbers: tuple[NDArray[np.int32], ...]

    def total(self, counts: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
        """The sums over all vocabularies of a count that each has of its terms, shape (terms,)."""
        out = np.zeros(len(self.terms), dtype=np.int64)
        for numbers, one in zip(self.numbers, counts, strict=True):
            out[numbers] += one  # a vocabulary has each term once
        return out


def merge_terms(vocabularies: Sequence[StringTable]) -> MergedTerms:
    """Merges vocabularies that are sorted already."""
    raw = [term for terms in vocabularies for term in terms.all_raw()]
    # Python's sort finds the sorted runs and merges them.
    order = sorted(range(len(raw)), key=raw.__getitem__)
    new = np.array([place == 0 or raw[order[place - 1]] != raw[here] for place, here in enumerate(order)], dtype=bool)
    numbers = np.empty(len(raw), dtype=np.int32)
    numbers[order] = np.cumsum(new) - 1
    kept = [raw[order[place]] for place in np.flatnonzero(new).tolist()]
    ends = np.cumsum([len(term) for term in kept], dtype=np.int64)
    table = StringTable(np.frombuffer(b"".join(kept), np.uint8), ends)
    return MergedTerms(table, tuple(np.split(numbers, np.cumsum([len(terms) for terms in vocabularies])[:-1])))


class MergedSource:
    """Forward indexes of one field as the source of another, in which their rows follow each other."""

    def __init__(self, parts: Sequence[ForwardIndex]) -> None:
        self._parts = parts
        self._merged = merge_terms([part.terms for part in parts])
        self._starts = np.concatenate([[0], np.cumsum([len(part) for part in parts])]).tolist()

    def scan(self) -> Scan:
        parts, merged = self._parts, self._merged
        data, ends = merged.terms.arrays
        return Scan(
            term_bytes=data,
            term_sizes=np.diff(ends, prepend=0).astype(np.int32),
            df=merged.total([part.df for part in parts]).astype(np.int32),
            cf=merged.total([part.cf for part in parts]),
            distinct=np.concatenate([np.diff(part.indptr) for part in parts]).astype(np.int32),
            lengths=np.concatenate([part.lengths for part in parts]),
            norms=np.concatenate([part.norms for part in parts]),
            live=np.concatenate([part.live for part in parts]),
        )

    def rows(
        self, start: int, end: int, scan: Scan, positions: bool
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
        """Rows stay sorted by term: the merged numbers rise with a part's own."""
        found = []
        for place, first, last in self._spans(start, end):
            terms, frequencies, where = self._parts[place].stored(first, last)
            found.append((self._merged.numbers[place][terms], frequencies.astype(np.int32), where))
        terms, frequencies, where = (np.concatenate(column) for column in zip(*found, strict=True))
        return terms, frequencies, where if positions else where[:0]

    def docids(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
        found = [self._parts[place].docids.run(first, last) for place, first, last in self._spans(start, end)]
        data, sizes = (np.concatenate(column) for column in zip(*found, strict=True))
        return data, sizes.astype(np.int32)

    def _spans(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """(part, first row, last row + 1) of the parts that have rows start..end-1, in the parts' own rows."""
        return [
            (place, max(start - begin, 0), min(end, self._starts[place + 1]) - begin)
            for place, begin in enumerate(self._starts[:-1])
            if start < self._starts[place + 1] and end > begin
        ]
