"""The memory limit: one option for all that builds something large, and what each part may take of it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option

OPTION = Option(
    "memory-limit", str, None, "bound the memory of building, such as 4G; what doesn't fit is done in smaller parts"
)

#: What Python, numpy, Lucene's code and FAISS's take before there is any data.
BASE = 400 << 20
#: Below this nothing is gained: the interpreter, Java and one block of rows are larger.
SMALLEST = 1 << 30
UNITS = {"M": 20, "G": 30, "T": 40}


@dataclass(frozen=True)
class MemoryLimit:
    """Bytes that a building process may take for itself (mapped files are the system's to drop and don't count)."""

    bytes: int

    @classmethod
    def parse(cls, text: str | None) -> MemoryLimit | None:
        """From text such as 4G, 1.5g or 800M; None stays None."""
        if text is None:
            return None
        found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([MGT])i?B?", text.strip(), flags=re.IGNORECASE)
        if not found:
            raise OptionError(f"--memory-limit: {text!r} is not a size such as 800M or 4G")
        size = int(float(found[1]) * (1 << UNITS[found[2].upper()]))
        if size < SMALLEST:
            raise OptionError(f"--memory-limit: {text} is below {SMALLEST >> 20}M, which the parts take without any data")
        return cls(size)

    @property
    def free(self) -> int:
        """What is left for data."""
        return self.bytes - BASE

    @property
    def java_heap(self) -> str:
        """Java's heap: half of it, at most 8 GB; Lucene reads through the page cache, not the heap."""
        return f"{min(self.bytes // 2, 8 << 30) >> 20}m"

    @property
    def export_block(self) -> int:
        """Bytes of a block of the forward index: rows stand in Java and in Python at once."""
        return min(1 << 28, self.free // 8)

    @property
    def features(self) -> int:
        """Bytes of features to keep between passes."""
        return self.free // 4

    @property
    def pairs(self) -> int:
        """Co-occurring pairs to hold at a time: counting them takes some sixty bytes each."""
        return self.free // 120

    def tokens(self, window: int) -> int:
        """Tokens to look at together: each makes two pairs a place of the window."""
        return max(1000, self.pairs // (2 * window))

    def holds(self, size: float) -> bool:
        """Whether an array of so many bytes may be built in memory, beside what else is there."""
        return size <= self.free // 2
