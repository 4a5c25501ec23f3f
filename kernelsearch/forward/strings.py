"""Tables of strings as two arrays (UTF-8 bytes, end offsets), which can be memory-mapped: loading them costs nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

#: Number of strings from which on decoding them together is faster than one by one.
MANY = 32
LINE_BREAK = ord("\n")


class StringTable:
    """A read-only list of strings, decoded on access.

    `data` are the UTF-8 bytes of all strings, `ends` (n,) the end of each string in them.

    >>> table = StringTable(np.frombuffer(b"droptap", np.uint8), np.array([4, 7]))
    >>> table[1], len(table), table.find_sorted("drop")
    ('tap', 2, 0)
    """

    def __init__(self, data: NDArray[np.uint8], ends: NDArray[np.int64]) -> None:
        self._data = data
        self._ends = ends
        # memoryviews: taking a few bytes or one number of them is much faster than of an array
        self._view, self._end_view = np.asarray(data).data, np.asarray(ends).data

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """The bytes and the end offsets."""
        return self._data, self._ends

    def raw(self, number: int) -> bytes:
        """Returns the UTF-8 bytes of the string `number`, from 0."""
        start = self._end_view[number - 1] if number else 0
        return self._view[start : self._end_view[number]].tobytes()

    def all_raw(self) -> list[bytes]:
        """Returns the UTF-8 bytes of every string."""
        data, ends = np.asarray(self._data).tobytes(), np.asarray(self._ends).tolist()
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def slice(self, start: int, end: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        """Returns the bytes and the sizes of the strings start..end-1."""
        first = int(self._ends[start - 1]) if start else 0
        sizes = np.diff(self._ends[start:end], prepend=first)
        return self._data[first : first + int(sizes.sum())], sizes

    def __getitem__(self, number: int) -> str:
        if number < 0:
            number += len(self)
        return self.raw(number).decode("utf-8", errors="replace")

    def take(self, numbers: Sequence[int] | NDArray[np.integer]) -> list[str]:
        """Returns the strings with these numbers."""
        numbers = np.asarray(numbers, dtype=np.int64)
        ends = np.asarray(self._ends[numbers], dtype=np.int64)
        starts = np.where(numbers > 0, self._ends[numbers - 1], 0)
        if len(numbers) >= MANY:
            lines = self._lines(starts, ends - starts)
            if len(lines) == len(numbers):
                return lines
        view = self._view
        return [str(view[start:end], "utf-8", "replace") for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _lines(self, starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> list[str]:
        """The strings decoded together, as lines of one text: more than requested where a string has a line break in it."""
        after = np.cumsum(sizes + 1)
        places = np.arange(after[-1]) + np.repeat(starts - (after - sizes - 1), sizes + 1)
        text = np.asarray(self._data).take(places, mode="clip")
        text[after - 1] = LINE_BREAK  # over the byte behind each string
        return str(text[:-1].data, "utf-8", "replace").split("\n")

    def made_of(self, allowed: NDArray[np.bool_], shortest: int = 0, longest: int | None = None) -> NDArray[np.bool_]:
        """Returns which strings consist of allowed bytes only and have `shortest` to `longest` of them, shape (n,).

        `allowed` (256,) says which bytes are allowed.
        """
        foreign = np.concatenate([[0], np.cumsum(~allowed[self._data], dtype=np.int32)])
        ends = np.asarray(self._ends, dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
        sizes = ends - starts
        fits: NDArray[np.bool_] = (sizes >= shortest) & (sizes <= (sizes if longest is None else longest))
        fits &= foreign[ends] == foreign[starts]
        return fits

    def find_sorted(self, text: str) -> int:
        """Returns the number of the string `text` in a table that is sorted by UTF-8 bytes, or -1."""
        wanted = text.encode("utf-8", errors="replace")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.raw(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self.raw(low) == wanted else -1


def hashes(strings: Iterable[bytes]) -> NDArray[np.uint64]:
    """Returns a 64-bit hash for each of `strings`, shape (n,), that is the same on every machine and in every run."""
    digest = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in strings)
    return np.frombuffer(digest, dtype="<u8")
