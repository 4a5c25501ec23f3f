"""Tables of strings as two arrays (UTF-8 bytes, end offsets), so that a vocabulary of millions is memory-mapped, not loaded."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

#: From so many strings on, decoding them together is quicker than one by one.
MANY = 32
LINE_BREAK = ord("\n")


class StringTable:
    """A read-only list of strings. `table[i]` decodes one; nothing is decoded before it is asked for."""

    def __init__(self, data: np.ndarray, ends: np.ndarray) -> None:
        self._data = data
        self._ends = ends
        self._view = np.asarray(data).data  # slices of it are made much faster than an array's

    def __len__(self) -> int:
        return len(self._ends)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray]:
        """The bytes and the end offsets that make the table."""
        return self._data, self._ends

    def raw(self, number: int) -> bytes:
        start = int(self._ends[number - 1]) if number else 0
        return self._view[start : int(self._ends[number])].tobytes()

    def all_raw(self) -> list[bytes]:
        """Every string's bytes, at one go."""
        data, ends = np.asarray(self._data).tobytes(), np.asarray(self._ends).tolist()
        return [data[start:end] for start, end in zip([0, *ends], ends, strict=False)]

    def run(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The bytes and the sizes of the strings start..end-1."""
        first = int(self._ends[start - 1]) if start else 0
        sizes = np.diff(self._ends[start:end], prepend=first)
        return self._data[first : first + int(sizes.sum())], sizes

    def __getitem__(self, number: int) -> str:
        if number < 0:
            number += len(self)
        return self.raw(number).decode("utf-8", errors="replace")

    def take(self, numbers: Sequence[int] | np.ndarray) -> list[str]:
        """The strings at these places."""
        numbers = np.asarray(numbers, dtype=np.int64)
        ends = np.asarray(self._ends[numbers], dtype=np.int64)
        starts = np.where(numbers > 0, self._ends[numbers - 1], 0)
        if len(numbers) >= MANY:
            lines = self._lines(starts, ends - starts)
            if len(lines) == len(numbers):
                return lines
        view = self._view
        return [str(view[start:end], "utf-8", "replace") for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _lines(self, starts: np.ndarray, sizes: np.ndarray) -> list[str]:
        """The strings decoded at one go, as lines of one text: too many where a string has a line break in it."""
        after = np.cumsum(sizes + 1)
        places = np.arange(after[-1]) + np.repeat(starts - (after - sizes - 1), sizes + 1)
        text = np.asarray(self._data).take(places, mode="clip")
        text[after - 1] = LINE_BREAK  # over the byte behind each string
        return str(text[:-1].data, "utf-8", "replace").split("\n")

    def made_of(self, allowed: np.ndarray, shortest: int = 0, longest: int | None = None) -> np.ndarray:
        """Which strings consist of allowed bytes only (a mask of 256) and have so many of them, shape (n,)."""
        foreign = np.concatenate([[0], np.cumsum(~allowed[self._data], dtype=np.int32)])
        ends = np.asarray(self._ends, dtype=np.int64)
        starts = np.concatenate([[0], ends[:-1]])[: len(ends)]
        sizes = ends - starts
        fits = (sizes >= shortest) & (sizes <= (sizes if longest is None else longest))
        return fits & (foreign[ends] == foreign[starts])

    def find_sorted(self, text: str) -> int:
        """The place of a string in a table sorted by UTF-8 bytes, or -1."""
        wanted = text.encode("utf-8", errors="replace")
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.raw(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self) and self.raw(low) == wanted else -1


def hashes(strings: Iterable[bytes]) -> np.ndarray:
    """A 64-bit hash of each string: the same on every machine and in every run."""
    digest = b"".join(hashlib.blake2b(text, digest_size=8).digest() for text in strings)
    return np.frombuffer(digest, dtype="<u8")
