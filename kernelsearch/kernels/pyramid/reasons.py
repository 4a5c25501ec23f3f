"""Why a document matched at a level: which columns were compared, which words counted, and which tokens contributed to them.

A level's similarity is Σ_jp w_jp s(j, p) for weights w of what is compared (the columns of the best window), and s is
a sum over rows; so the similarity is a sum over words, exactly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from kernelsearch.kernels.pyramid.matching import Aligned, Matcher
from kernelsearch.kernels.pyramid.query_rows import Array, QueryRows, Scale, Texts, filled

#: Pairs of a query column and a document column whose cells are computed at a time: 257 rows of them take 35 MB.
PAIRS = 1 << 14


@dataclass(frozen=True)
class LevelMatch:
    """One level's match of a query and one document.

    - `similarity`: the level's score; the sum of `words`, `other` and `background`
    - `words` (rows,): what each row adds to a text of nothing but background; `other`: the same for all other words together
    - `background`: the similarity of a text of nothing but background
    - `span`: first and last position (from 0, in words that the index keeps) of where most of the comparison was
    - `attention` (positions,): how much each position counted, summing to one for all modes but `sum`
    - `lent` (rows, positions), sparse: how much each token contributed to each row, attention included
    """

    scale: Scale
    similarity: float
    words: Array
    other: float
    background: float
    span: tuple[int, int]
    attention: Array
    lent: sparse.csr_matrix


def level_matches(matcher: Matcher, rows: QueryRows, text: Texts) -> list[LevelMatch]:
    """The matches of the query `rows` and the document `text` at every level of `matcher`, in double precision."""
    text, cell = filled(text), matcher.divergence.cell
    aligned = zip(matcher.scales, matcher.alignments(rows, text), strict=True)
    return [_reasons(rows, text, scale, alignment, cell) for scale, alignment in aligned]


def _reasons(rows: QueryRows, text: Texts, scale: Scale, aligned: Aligned, cell: Callable[[Array, Array], Array]) -> LevelMatch:
    mine, theirs, weights = aligned.pairs
    code = rows.code(text, aligned.window, scale)
    held = aligned.window @ rows.held(text, scale)
    parts = np.zeros(len(rows.floor))
    for start in range(0, len(mine), PAIRS):
        block = slice(start, start + PAIRS)
        columns, place = np.unique(theirs[block], return_inverse=True)
        cells = code[:, columns].toarray() / (1 + rows.eta) + rows.floor[:-1, None]
        filled_columns = np.vstack([cells, np.maximum(rows.floor[-1] - held[columns] / (1 + rows.eta), 0.0)]).T
        parts += weights[block] @ cell(aligned.query.columns[mine[block]], filled_columns[place])
    by_column = np.bincount(mine, weights, len(aligned.query.columns))
    empty = by_column @ cell(aligned.query.columns, rows.floor[None, :])
    gain = parts - empty
    used = np.bincount(theirs, weights, aligned.window.shape[0])
    attention = aligned.window.T @ used
    lent = sparse.csr_matrix(rows.sparse_spread(text, scale).multiply(attention[None, :]))
    # Windows have long tails: what counted at least half as much as the position that counted most is what was compared.
    seen = np.flatnonzero(attention >= 0.5 * attention.max(initial=0.0))
    span = (int(seen[0]), int(seen[-1])) if attention.any() else (0, 0)
    return LevelMatch(scale, float(parts.sum()), gain[:-1], float(gain[-1]), float(empty.sum()), span, attention, lent)
