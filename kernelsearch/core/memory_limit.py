"""The memory limit: one option for everything that builds large structures, and the share of each of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelsearch.core.errors import Flag, OptionError

#: Memory of Python, numpy, Lucene and FAISS before any data is loaded, in bytes.
BASE = 400 << 20
#: Smallest limit in bytes: the interpreter, Java and one block of rows need as much.
SMALLEST = 1 << 30
UNITS = {"M": 20, "G": 30, "T": 40}


@dataclass(frozen=True)
class MemoryLimit:
    """An upper limit of a process's memory in `bytes`; memory-mapped files, which the system can drop, are not included."""

    bytes: int

    @classmethod
    def parse(cls, text: str | None) -> MemoryLimit | None:
        """Returns the limit for text such as 4G, 1.5g or 800M, None for None. Raises OptionError for anything else.

        >>> MemoryLimit.parse("2G").bytes == 2 << 30
        True
        """
        if text is None:
            return None
        match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGT])i?B?", text.strip(), flags=re.IGNORECASE)
        if not match:
            raise OptionError(f"{text!r} is not a size such as 800M or 4G", option=Flag("memory-limit"))
        size = int(float(match[1]) * (1 << UNITS[match[2].upper()]))
        if size < SMALLEST:
            raise OptionError(
                f"{text} is below {SMALLEST >> 20}M, which is needed without any data", option=Flag("memory-limit")
            )
        return cls(size)

    @property
    def free(self) -> int:
        """Bytes that are left for data."""
        return self.bytes - BASE

    @property
    def java_heap(self) -> str:
        """Java's maximal heap: half of the limit, at most 8 GB; Lucene reads its index through the page cache, not the heap."""
        return f"{min(self.bytes // 2, 8 << 30) >> 20}m"

    @property
    def export_block(self) -> int:
        """Bytes per block of the forward index while it is exported, of which memory holds up to twice as many."""
        return min(1 << 28, self.free // 8)

    @property
    def features(self) -> int:
        """Bytes of features to cache between passes."""
        return self.free // 4

    @property
    def pairs(self) -> int:
        """Co-occurring pairs to count at a time: counting takes about sixty bytes per pair."""
        return self.free // 120

    def tokens(self, window: int) -> int:
        """Returns the number of tokens to count pairs of at a time: a token has two pairs per position of the window."""
        return max(1000, self.pairs // (2 * window))

    def holds(self, size: float) -> bool:
        """Returns whether an array of `size` bytes may be built in memory."""
        return size <= self.free // 2
