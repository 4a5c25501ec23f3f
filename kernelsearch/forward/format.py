"""The stored form of a forward index: its kind and version, what its files must satisfy, and Lucene's coding of lengths."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import invariants

KIND = "forward index"
VERSION = 1
#: The statistics that are stored of a field, those of `forward.index.Statistics`.
STATISTICS = ("documents", "tokens", "postings")


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for `arrays` that don't fit each other or `meta`, or have numbers out of range."""
    rows, terms, postings = len(arrays["lengths"]), len(arrays["term_ends"]), len(arrays["indices"])
    statistics = meta["extra"]["statistics"]
    for name in STATISTICS:
        if type(statistics[name]) is not int or statistics[name] < 0:
            raise ValueError(f"the number of {name} is {statistics[name]!r}")
    if unknown := sorted(statistics.keys() - set(STATISTICS)):
        raise ValueError(f"unknown statistics: {', '.join(unknown)}")
    for name in ("term_bytes", "docid_bytes"):
        if arrays[name].dtype != np.uint8:
            raise ValueError(f"{name} has type {arrays[name].dtype}")
    positions = meta["parameters"]["positions"]
    invariants.require_length("indptr", arrays["indptr"], rows + 1)
    invariants.require_offsets("indptr", arrays["indptr"], postings)
    invariants.require_length("indices", arrays["indices"], postings)
    invariants.require_range("indices", arrays["indices"], 0, terms)
    invariants.require_length("frequencies", arrays["frequencies"], postings)
    invariants.require_range("frequencies", arrays["frequencies"], 1, 2**31)
    invariants.require_range("lengths", arrays["lengths"], 0, 2**31)
    tokens = int(arrays["lengths"].sum(dtype=np.int64))
    if int(arrays["frequencies"].sum(dtype=np.int64)) != tokens:
        raise ValueError(f"the frequencies don't add up to the {tokens} tokens of the documents")
    invariants.require_length("positions", arrays["positions"], tokens if positions else 0)
    invariants.require_range("positions", arrays["positions"], 0, 2**31)
    for name, kinds, length in (("norms", "u", rows), ("live", "b", rows), ("df", "i", terms), ("cf", "i", terms)):
        invariants.require_kind(name, arrays[name], kinds)
        invariants.require_length(name, arrays[name], length)
    for name in ("df", "cf"):
        invariants.require_range(name, arrays[name], 0, 2**63)
    invariants.require_offsets("term_ends", arrays["term_ends"], len(arrays["term_bytes"]), first=False)
    invariants.require_offsets("docid_ends", arrays["docid_ends"], len(arrays["docid_bytes"]), first=False)
    for name in ("docid_ends", "docid_rank"):
        invariants.require_length(name, arrays[name], rows)
    invariants.require_range("docid_rank", arrays["docid_rank"], 0, rows)
    live = int(arrays["live"].sum())
    for name in ("docid_hashes", "docid_hash_rows"):
        invariants.require_length(name, arrays[name], live)
    invariants.require_range("docid_hash_rows", arrays["docid_hash_rows"], 0, rows)


def _norm_table() -> NDArray[np.float32]:
    """Lucene's SmallFloat.byte4ToInt for all 256 bytes: exact below 40, then three bits of mantissa."""
    free = 255 - _long_to_int4(2**31 - 1)
    return np.array([b if b < free else free + _int4_to_long(b - free) for b in range(256)], dtype=np.float32)


def _long_to_int4(value: int) -> int:
    bits = value.bit_length()
    if bits < 4:
        return value
    shift = bits - 4
    return ((value >> shift) & 0x07) | ((shift + 1) << 3)


def _int4_to_long(code: int) -> int:
    mantissa, shift = code & 0x07, (code >> 3) - 1
    return mantissa if shift == -1 else (mantissa | 0x08) << shift


#: The document length that each of Lucene's norm bytes encodes, shape (256,).
NORM_LENGTHS = _norm_table()
