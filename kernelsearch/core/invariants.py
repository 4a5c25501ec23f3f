"""Checks of arrays that were read from files, before native code that trusts them sees them. Each raises ValueError."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Elements that are looked at together, so that checking a memory-mapped array takes little memory.
BLOCK = 1 << 22


def require_length(name: str, array: NDArray[Any], length: int) -> None:
    """Requires a one-dimensional array of `length` elements; ValueError, which names `name`, for others, as in all of these."""
    if array.ndim != 1 or len(array) != length:
        raise ValueError(f"{name} has shape {array.shape}, ({length},) was expected")


def require_kind(name: str, array: NDArray[Any], kinds: str) -> None:
    """Requires that `array`, called `name`, has one of numpy's `kinds` of types, such as "iu" for integers."""
    if array.dtype.kind not in kinds or array.dtype.byteorder == ">":
        raise ValueError(f"{name} has type {array.dtype}")


def require_range(name: str, array: NDArray[Any], low: int, high: int) -> None:
    """Requires that `array`, called `name`, has integers from `low` to `high` - 1."""
    require_kind(name, array, "iu")
    for block in _blocks(array):
        if int(block.min()) < low or int(block.max()) >= high:
            raise ValueError(f"{name} has a number outside {low}..{high - 1}")


def require_offsets(name: str, offsets: NDArray[Any], total: int, *, first: bool = True) -> None:
    """Requires that `offsets`, called `name`, ascend to `total`; with `first`, they begin with 0 (CSR's indptr)."""
    require_kind(name, offsets, "iu")
    if offsets.ndim != 1 or (first and not len(offsets)):
        raise ValueError(f"{name} has shape {offsets.shape}")
    if not len(offsets):
        if total:
            raise ValueError(f"{name} is empty, but its content has {total} elements")
        return
    start, end = int(offsets[0]), int(offsets[-1])
    if (start != 0 if first else start < 0) or end != total or bool((offsets[1:] < offsets[:-1]).any()):
        raise ValueError(f"{name} is not ascending to {total}")


def require_finite(name: str, array: NDArray[Any]) -> None:
    """Requires that `array`, called `name`, has floating-point numbers without NaN and infinity."""
    require_kind(name, array, "f")
    for block in _blocks(array):
        if not bool(np.isfinite(block).all()):
            raise ValueError(f"{name} has a value that is not finite")


def _blocks(array: NDArray[Any]) -> list[NDArray[Any]]:
    flat = array.reshape(-1)
    return [flat[start : start + BLOCK] for start in range(0, len(flat), BLOCK)]
