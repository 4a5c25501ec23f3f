"""The order in which Java's HashMap and HashSet iterate over strings, which decides sums and ties in Anserini's feedback.

A map of n entries has the smallest power of two of buckets, at least 16, that keeps n within three quarters of it. It
iterates bucket by bucket; entries of one bucket stay in the order in which they were inserted. (A bucket of eight or more
entries becomes a tree, whose order differs; with Java's string hashes that happens once in some thousand maps of a thousand
entries, and only entries of that bucket change places.)
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

MULTIPLIER = 31
SMALLEST = 16


class Strings(Protocol):
    """A table of strings as UTF-8 bytes and end offsets; a forward index's `terms` is one."""

    @property
    def arrays(self) -> tuple[NDArray[np.uint8], NDArray[np.int64]]: ...

    def __getitem__(self, number: int) -> str: ...


def utf16_lengths(table: Strings) -> NDArray[np.int64]:
    """Java's String.length() of every string of a table, shape (strings,)."""
    data, ends = table.arrays
    # A character takes one unit, and a second one where it takes four bytes in UTF-8.
    units = ((data & 0xC0) != 0x80).astype(np.int8) + (data >= 0xF0)
    after = np.concatenate([[0], np.cumsum(units, dtype=np.int64)])
    return np.diff(after[ends], prepend=0)


def utf16_ranks(table: Strings) -> NDArray[np.int64] | None:
    """The place of each string of `table` in the order of Java's String.compareTo, shape (strings,).

    None where this is the order of UTF-8 bytes.

    The two orders differ between characters of four bytes and those from U+E000 to U+FFFF.
    """
    data, ends = table.arrays
    if not (data >= 0xF0).any() or not ((data == 0xEE) | (data == 0xEF)).any():
        return None
    raised = data.copy()
    raised[data == 0xEE], raised[data == 0xEF] = 0xFE, 0xFF  # above every byte that begins a character of four bytes
    joined, bounds = raised.tobytes(), ends.tolist()
    strings = [joined[start:end] for start, end in zip([0, *bounds], bounds, strict=False)]
    ranks = np.empty(len(strings), dtype=np.int64)
    ranks[sorted(range(len(strings)), key=strings.__getitem__)] = np.arange(len(strings))
    return ranks


def hashes(table: Strings, numbers: NDArray[np.integer]) -> NDArray[np.uint32]:
    """HashMap's hash of strings of a table: String.hashCode() with its upper half folded into the lower, shape (numbers,)."""
    numbers = np.asarray(numbers, dtype=np.int64)
    if not len(numbers):
        return np.zeros(0, dtype=np.uint32)
    data, all_ends = table.arrays
    ends = np.asarray(all_ends[numbers], dtype=np.int64)
    sizes = ends - np.where(numbers > 0, all_ends[numbers - 1], 0)
    longest = max(int(sizes.max()), 1)
    back = np.arange(longest, 0, -1)  # distances from the string's end, so that the powers of 31 are the same for all
    units = np.where(back <= sizes[:, None], data[np.maximum(ends[:, None] - back, 0)], 0).astype(np.uint32)
    powers = np.full(longest, MULTIPLIER, dtype=np.uint32)
    powers[0] = 1
    code = (units * np.multiply.accumulate(powers)[::-1]).sum(axis=1, dtype=np.uint32)
    for place in np.flatnonzero((units >= 0x80).any(axis=1)).tolist():
        code[place] = _hash_code(table[int(numbers[place])])
    result: NDArray[np.uint32] = code ^ (code >> np.uint32(16))
    return result


def _hash_code(text: str) -> int:
    code = 0
    for unit in np.frombuffer(text.encode("utf-16-le"), dtype="<u2").tolist():
        code = (code * MULTIPLIER + unit) & 0xFFFFFFFF
    return code


def buckets(hashed: NDArray[np.uint32], entries: NDArray[np.integer] | int) -> NDArray[np.uint32]:
    """The bucket of each string in a map of `entries` entries (one number, or one per string), shape (strings,).

    `hashed` (strings,) are the strings' hashes, see `hashes`.
    """
    return hashed & (capacity(np.asarray(entries)) - 1).astype(np.uint32)


def capacity(entries: NDArray[np.integer]) -> NDArray[np.int64]:
    """The number of buckets of a map that grew to `entries` entries."""
    needed = -(-4 * np.maximum(entries, 1) // 3)
    power = np.ceil(np.log2(needed)).astype(np.int64)  # exact: below 2**49 log2 of a power of two has no rounding error
    result: NDArray[np.int64] = np.maximum(np.int64(1) << power, SMALLEST)
    return result
