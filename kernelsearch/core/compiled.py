"""The compiled inner loops (`_loops.c` and the C files beside it), loaded through ctypes, which releases the GIL meanwhile.

They are optional: an installation without a C compiler has none, and callers then use numpy, which gives the same to rounding.
The environment variable KERNELSEARCH_COMPILED=0 turns them off.
"""

from __future__ import annotations

import ctypes
import logging
import os
from functools import cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kernelsearch.core.errors import IndexProblem

logger = logging.getLogger(__name__)

#: The environment variable that turns the compiled loops off when it is 0.
SWITCH = "KERNELSEARCH_COMPILED"
#: The version of the functions that this module calls; a library of another version, left by an earlier build, is not used.
VERSION = 7
OUT_OF_RANGE, OUT_OF_MEMORY = 1, 2

#: Types of arguments: an array's address, a size, a number, a choice.
ADDRESS, SIZE, NUMBER, CHOICE = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_int
#: The postings of a field: where rows start, rows, terms, frequencies, bytes of a frequency, postings, terms of the field.
POSTINGS = (ADDRESS, SIZE, ADDRESS, ADDRESS, CHOICE, SIZE, SIZE)
#: The types of frequencies that loops over postings read.
FREQUENCIES = (np.dtype(np.uint16), np.dtype(np.int32), np.dtype(np.uint32))
#: Functions with the types of their arguments, in the order of the C code.
FUNCTIONS: dict[str, tuple[Any, ...]] = {
    "kernelsearch_match_level": (
        *(ADDRESS, SIZE, ADDRESS, ADDRESS, SIZE),
        *(ADDRESS, SIZE, ADDRESS),
        *(ADDRESS, ADDRESS, ADDRESS, ADDRESS, SIZE),
        *(ADDRESS, SIZE, SIZE),
        *(ADDRESS, ADDRESS, SIZE, SIZE, ADDRESS, NUMBER, ADDRESS),
    ),
    "kernelsearch_bm25": (*POSTINGS, ADDRESS, SIZE, ADDRESS, ADDRESS, SIZE, SIZE, ADDRESS, ADDRESS),
    "kernelsearch_term_frequencies": (*POSTINGS, ADDRESS, SIZE, ADDRESS, SIZE, ADDRESS),
    "kernelsearch_inverse_norms": (*POSTINGS, ADDRESS, SIZE, ADDRESS, ADDRESS),
    "kernelsearch_mean_cosines": (*POSTINGS, ADDRESS, SIZE, ADDRESS, ADDRESS, SIZE, ADDRESS, ADDRESS),
    "kernelsearch_query_products": (*POSTINGS, ADDRESS, SIZE, ADDRESS, ADDRESS, SIZE, ADDRESS, ADDRESS),
    "kernelsearch_run_lines": (ADDRESS, SIZE, SIZE, SIZE, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS, ADDRESS),
    "kernelsearch_unit_products": (ADDRESS, SIZE, SIZE, SIZE, ADDRESS, ADDRESS, ADDRESS, SIZE, ADDRESS),
    "kernelsearch_half_products": (ADDRESS, SIZE, SIZE, ADDRESS, ADDRESS, SIZE, ADDRESS),
    "kernelsearch_code_products": (ADDRESS, SIZE, SIZE, ADDRESS, SIZE, ADDRESS),
}


class PostingRows(NamedTuple):
    """Rows of a field as the compiled loops over its postings (`_postings.c`) take them."""

    library: ctypes.CDLL
    postings: tuple[int, ...]  #: the first arguments of a loop, from `posting_arguments`
    arrays: tuple[NDArray[Any], ...]  #: what they were made of, held because the arguments are addresses
    docs: NDArray[np.int32]  #: the rows, contiguous


def loops() -> ctypes.CDLL | None:
    """The library of compiled loops; None where it wasn't built or is turned off."""
    return None if os.environ.get(SWITCH) == "0" else _load()


@cache
def _load() -> ctypes.CDLL | None:
    spec = find_spec("kernelsearch.core._loops")
    if spec is None or spec.origin is None:
        return None
    try:
        library = ctypes.CDLL(spec.origin)
        version = int(library.kernelsearch_version())
        if version != VERSION:
            logger.info("%s: compiled for version %d, not %d; install again", spec.origin, version, VERSION)
            return None
        for name, types in FUNCTIONS.items():
            getattr(library, name).argtypes = types
    except (OSError, AttributeError) as problem:
        logger.info("%s: not used: %s", spec.origin, problem)
        return None
    return library


def address(array: NDArray[Any], dtype: DTypeLike, *shape: int) -> int:
    """The address of an array's first element; ValueError unless it has this `dtype` and `shape` and is contiguous."""
    if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
        raise ValueError(f"an array of {array.dtype} and shape {array.shape} where {np.dtype(dtype)} {shape} was expected")
    return array.ctypes.data


def posting_arguments(
    indptr: NDArray[np.int64], terms: NDArray[np.int32], frequencies: NDArray[Any], width: int
) -> tuple[int, ...]:
    """The arguments POSTINGS for the postings `indptr` (n+1,), `terms` (nnz,) and `frequencies` (nnz,) of `width` terms.

    The loops read the arrays where they are, mapped or not: they must be held as long as the arguments are used. Raises
    ValueError for arrays of other types than a forward index is written with.
    """
    if frequencies.dtype not in FREQUENCIES:
        raise ValueError(f"frequencies of {frequencies.dtype}, which the compiled loops don't read")
    rows, size = len(indptr) - 1, len(terms)
    starts, frequency_type = address(indptr, np.int64, rows + 1), frequencies.dtype
    numbers, counts = address(terms, np.int32, size), address(frequencies, frequency_type, size)
    return starts, rows, numbers, counts, frequency_type.itemsize, size, width


def call(function: Any, *arguments: Any) -> None:
    """Calls a compiled function; raises IndexProblem for numbers out of range and MemoryError, as its status says.

    `function` is one of the library's, `arguments` are those of the C code. An array is passed as (array, dtype, *shape) and
    checked by `address`; everything else is passed as it is.
    """
    status = function(*[address(*argument) if isinstance(argument, tuple) else argument for argument in arguments])
    if status == OUT_OF_RANGE:
        raise IndexProblem("the index changed while it was read, or is damaged: a number in its postings is out of range")
    if status == OUT_OF_MEMORY:
        raise MemoryError("not enough memory for the texts of a query's candidates")
