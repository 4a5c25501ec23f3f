"""The plot of `mslm`: a document's pyramid over the query's words, and where each scale matches the query."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Query
from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.kernels.pyramid.query_rows import QueryRows, Scale, Texts
from kernelsearch.kernels.pyramid.text_pyramid import SCALES, Samples
from kernelsearch.kernels.semantic.graph import sequences
from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.plots.pyramid import COLOURS, draw_pyramid, scale_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelsearch.rerankers.mslm.reranker import MultiScaleLM

#: Rows drawn: the query's words, then the related words with most mass in the document.
DRAWN = 16
#: Positions drawn of a long text, evenly spaced: more than a picture has pixels across.
POSITIONS = 2000
#: Scales whose matches are drawn; at scale 0 only exact positions match.
MATCHED = (1.0, 2.0, 4.0, 8.0)


def plot(reranker: MultiScaleLM, query: Query, doc: int, path: Path) -> None:
    """Draws a document's pyramid as heat maps, and below the similarity of the query and the window around each position.

    `reranker` is the method, `doc` the document's row, `path` the file.
    """
    semantic = max(scale.semantic for scale in reranker.scales)
    width = reranker.scales[0].width
    levels = tuple(Scale(scale, semantic if scale else 0.0, width) for scale in SCALES)
    matched = tuple(Scale(scale, semantic, width) for scale in MATCHED)
    rows = reranker.rows(query, scales=(*levels, *matched))
    texts = reranker.texts(rows, np.array([doc]))
    tokens = sequences(reranker.forward, np.array([doc]))[1]
    positions = _positions(int(texts.lengths[0]), POSITIONS)
    maps = [_dense(rows, texts, scale, positions) for scale in levels]
    chosen = _drawn(rows, maps)
    names = [reranker.forward.terms[int(rows.words[row])] for row in chosen]
    figure = new_figure(12, 2.6 + 0.19 * len(chosen) + 2.4)
    grid = figure.add_gridspec(2, len(levels), height_ratios=[0.4 + 0.19 * len(chosen), 2.2])
    words = [reranker.forward.terms[int(word)] for word in tokens[:POSITIONS]]
    axes = [figure.add_subplot(grid[0, place]) for place in range(len(levels))]
    titles = [scale_name(scale.spatial) + (" (the code)" if scale.spatial == 0 else "") for scale in levels]
    draw_pyramid(axes, [values[chosen] for values in maps], titles, names, words, power=0.5, length=int(texts.lengths[0]))
    below = figure.add_subplot(grid[1, :])
    _draw_matches(below, reranker, rows, texts, matched)
    title = query.text if len(query.text) <= 100 else query.text[:97] + "..."
    figure.suptitle(f"{title}\n{reranker.forward.docids[doc]}", fontsize=11)
    save_figure(figure, path)


def _positions(length: int, most: int) -> NDArray[np.int64]:
    """At most `most` evenly spaced positions of a text, all of a short one, shape (positions,)."""
    return np.unique(np.linspace(0, max(length - 1, 0), min(max(length, 1), most)).astype(np.int64))


def _dense(rows: QueryRows, texts: Texts, scale: Scale, positions: NDArray[np.int64]) -> NDArray[np.float64]:
    """The document's code over the query's rows at the positions, shape (rows, positions)."""
    # At scale ∞ all columns are alike.
    places = positions if math.isfinite(scale.spatial) else positions[:1]
    columns = rows.document_columns(texts, Samples(np.zeros_like(places), places), scale)
    return np.broadcast_to(columns.written_out()[0], (len(rows.words), len(positions)))


def _drawn(rows: QueryRows, maps: list[NDArray[np.float64]]) -> NDArray[np.int64]:
    """Rows of the query's words in its order, then those of related words with most mass."""
    own = [int(np.flatnonzero(rows.words == word)[0]) for word in rows.query][:DRAWN]
    filled = np.argsort(-maps[-1].sum(axis=1), kind="stable")
    others = [int(row) for row in filled if row not in own and maps[-1][row].sum() > 0]
    return np.array([*own, *others[: max(0, DRAWN - len(own))]])


def _draw_matches(axis: Axes, reranker: MultiScaleLM, rows: QueryRows, texts: Texts, scales: tuple[Scale, ...]) -> None:
    """Draws window similarities by position, each scale from its lowest (0) to its best (1), which has a dot."""
    matcher = Matcher(scales, divergence=reranker.matcher.divergence)
    for colour, scale in zip(COLOURS, scales, strict=False):
        side = rows.query_level(scale, step=1)
        count = len(side.weights)
        starts = _positions(max(int(texts.lengths[0]) - count + 1, 1), max(1, POSITIONS // count))
        position = (starts[:, None] + np.arange(count)).ravel()
        pairs = matcher.similarity_at(rows, side, texts, Samples(np.zeros_like(position), position), scale)
        # The window that begins at a start compares query column j with the j-th column from there.
        shown = np.einsum("j,jsj->s", side.weights, pairs.reshape(count, len(starts), count))
        height = (shown - shown.min()) / max(float(np.ptp(shown)), 1e-12)
        centre = starts + (count - 1) / 2 + 1
        axis.plot(centre, height, color=colour, linewidth=1.3, label=scale_name(scale.spatial))
        axis.plot(centre[height.argmax()], 1.0, "o", color=colour, markersize=5)
    length = int(texts.lengths[0])
    axis.set_xlim(0.5, max(length, len(rows.query)) + 0.5)
    axis.set_ylim(-0.03, 1.12)
    axis.set_xlabel("position of the window's middle (words that the index keeps)", fontsize=9)
    axis.set_ylabel("match with the query\n(lowest 0, best 1)", fontsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=8, ncols=math.ceil(len(scales)), loc="upper right")
