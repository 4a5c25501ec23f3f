"""Local matching at one level by the compiled loop, from texts as word numbers: no array is as long as the texts."""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import compiled
from kernelsearch.kernels.pyramid.query_rows import Array, QueryLevel, QueryRows, Scale
from kernelsearch.kernels.pyramid.text_pyramid import window


class WordRanges(NamedTuple):
    """Texts as ranges of an array of word numbers in reading order: text d is words[starts[d]:ends[d]]."""

    words: NDArray[np.int32]
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def level_scores(
    library: ctypes.CDLL,
    rows: QueryRows,
    query: QueryLevel,
    texts: WordRanges,
    scale: Scale,
    step: int,
) -> Array:
    """The similarity of each text's best window at a level in double precision, shape (texts,): `best_windows` of `matching`.

    `library` has the compiled loops, `rows` and `query` are the query's side at `scale`, `step` is the distance of the columns
    compared.
    """
    whole = scale.spatial == math.inf
    weights = np.ones(1) if whole else window(scale.spatial, scale.width)
    lent = rows.lent_by_slot(scale.semantic)
    count, slots, vocabulary, columns = len(texts.starts), len(lent.held), len(rows.slots), len(query.weights)
    size = len(rows.words)
    out = np.empty(count)
    compiled.call(
        library.kernelsearch_match_level,
        (texts.words, np.int32, len(texts.words)), len(texts.words),
        (texts.starts, np.int64, count), (texts.ends, np.int64, count), count,
        (rows.slots, np.int32, vocabulary), vocabulary,
        None if rows.importance is None else (rows.importance, np.float64, vocabulary),
        (lent.ends, np.int64, slots + 1), (lent.rows, np.int32, len(lent.values)),
        (lent.values, np.float64, len(lent.values)), (lent.held, np.float64, slots), slots,
        (weights, np.float64, len(weights)), len(weights) // 2, 0 if whole else step,
        (query.columns, np.float64, columns, size + 1), (query.weights, np.float64, columns), columns, size,
        (rows.floor, np.float64, size + 1), rows.eta,
        (out, np.float64, count),
    )  # fmt: skip
    return out
