"""Feature tables in the svmlight form of LETOR: `grade qid:7 1:0.3 2:1.5 # comment`."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import open_bytes


class Table(NamedTuple):
    """Rows of features with their grades and query ids."""

    X: NDArray[np.float64]  #: (rows, features)
    y: NDArray[np.float64]  #: (rows,)
    qid: NDArray[np.int64]  #: (rows,)


def read_letor(path: str | Path, features: int | None = None) -> Table:
    """Reads a file, gzipped or not. `features` is how many columns a model expects; a file with more is refused."""
    from sklearn.datasets import load_svmlight_file

    with open_bytes(path) as stream:
        try:
            # One-based, as LETOR counts; a column that no row names is a column of zeros.
            X, y, qid = load_svmlight_file(stream, query_id=True, zero_based=False, n_features=features)
        except ValueError as problem:
            raise InputError(f"{path}: not a LETOR file ({' '.join(str(problem).split())[:160]})") from None
        except (EOFError, OSError) as problem:
            raise InputError(f"{path}: damaged ({problem})") from None
    if len(qid) != len(y):
        raise InputError(f"{path}: {len(y)} rows, but only {len(qid)} name their query (qid:N)")
    if not len(y):
        raise InputError(f"{path}: is empty")
    return Table(X.toarray().astype(np.float64), y.astype(np.float64), qid.astype(np.int64))
