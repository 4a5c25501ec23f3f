"""Feature tables in the svmlight form of LETOR: `grade qid:7 1:0.3 2:1.5 # comment`."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError, quote, short
from kernelsearch.core.reading import lines, to_number, whole_number

#: The largest number of a feature: LETOR's own collections have at most 700.
MAX_FEATURE = 100_000


class LetorTable(NamedTuple):
    """Rows of features with their grades and query ids."""

    X: NDArray[np.float64]  #: (rows, features)
    y: NDArray[np.float64]  #: (rows,)
    qid: NDArray[np.int64]  #: (rows,)


def read_letor(path: str | Path, features: int | None = None) -> LetorTable:
    """Reads the file `path`, gzipped or not. `features` is how many columns a model expects; a file with more is refused.

    A column that no row names is a column of zeros. Raises InputError, with the line, for a line of another form.
    """
    grades: list[float] = []
    queries: list[int] = []
    rows: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = []
    largest = 0
    for number, line in lines(path):
        words = line.partition("#")[0].split()
        if not words:
            continue
        place = f"{path}: line {number}"
        if len(words) < 2 or not words[1].startswith("qid:"):
            raise InputError(f"not a LETOR file, which has rows such as 2 qid:7 1:0.3 2:1.5, but {quote(line)}", path=place)
        try:
            queries.append(whole_number(words[1][4:]))
            grades.append(to_number(words[0]))
            pairs = [word.partition(":") for word in words[2:]]
            columns = [whole_number(name, low=1, high=features or MAX_FEATURE) for name, _, _ in pairs]
            values = np.array([to_number(value) for _, _, value in pairs], dtype=np.float64)
        except ValueError as problem:
            raise InputError(f"not a LETOR file ({short(str(problem))})", path=place) from None
        if not np.isfinite(grades[-1]) or not np.isfinite(values).all():
            raise InputError("a grade or value that is not finite", path=place)
        if any(left >= right for left, right in pairwise(columns)):
            raise InputError("features must be in the order of their numbers, each at most once", path=place)
        largest = max(largest, columns[-1] if columns else 0)
        rows.append((np.array(columns, dtype=np.int32) - 1, values))
    if not rows:
        raise InputError("is empty", path=path)
    try:
        X = np.zeros((len(rows), features or largest))
    except (MemoryError, ValueError):
        raise InputError(f"{len(rows)} rows of {largest} features don't fit into memory", path=path) from None
    for row, (places, values) in zip(X, rows, strict=True):
        row[places] = values
    return LetorTable(X, np.array(grades), np.array(queries, dtype=np.int64))
