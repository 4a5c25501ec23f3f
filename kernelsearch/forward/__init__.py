"""The forward index: a field's postings by document, as memory-mapped arrays."""

from kernelsearch.forward.format import NORM_LENGTHS
from kernelsearch.forward.index import ForwardIndex, Statistics, StringTable, check_field
from kernelsearch.forward.merge import MergedSource
from kernelsearch.forward.write import write_forward

__all__ = [
    "NORM_LENGTHS",
    "ForwardIndex",
    "MergedSource",
    "Statistics",
    "StringTable",
    "check_field",
    "write_forward",
]
