"""The forward index: a field's postings by document, as memory-mapped arrays."""

from kernelsearch.forward.index import NORM_LENGTHS, ForwardIndex, Statistics, check_field
from kernelsearch.forward.merge import MergedSource, merge_terms
from kernelsearch.forward.strings import StringTable
from kernelsearch.forward.write import write_forward

__all__ = [
    "NORM_LENGTHS",
    "ForwardIndex",
    "MergedSource",
    "Statistics",
    "StringTable",
    "check_field",
    "merge_terms",
    "write_forward",
]
