"""The forward index on disk."""

from kernelsearch.forward.index import NORM_LENGTHS, ForwardIndex, Statistics
from kernelsearch.forward.strings import StringTable
from kernelsearch.forward.write import ForwardSource, write_forward

__all__ = ["NORM_LENGTHS", "ForwardIndex", "ForwardSource", "Statistics", "StringTable", "write_forward"]
