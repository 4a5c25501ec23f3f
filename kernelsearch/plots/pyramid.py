"""Pictures of the language pyramid: a row of heat maps, words × positions at each scale (Yang & Zha, CIKM 2010, Figure 2)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelsearch.plots.figures import new_figure, save_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")


def scale_name(scale: float) -> str:
    """The name of a `scale` in titles: "σ = 2", or "σ = ∞" for the whole text."""
    return "σ = ∞" if scale == math.inf else f"σ = {scale:g}"


def draw_pyramid(
    axes: Sequence[Axes],
    maps: Sequence[NDArray[np.floating]],
    titles: Sequence[str],
    words: Sequence[str],
    tokens: Sequence[str] = (),
    power: float = 1.0,
    length: int | None = None,
) -> None:
    """Draws one heat map per axis, each (words, positions) on its own scale of greys; short texts get their words below.

    Parameters
    ----------
    axes : of matplotlib, one per map
    maps : the mass of each word at each position, shape (words, positions)
    titles : one per map
    words : the words of the rows
    tokens : the words of the text, written below the maps of a short one
    power : greys go by this power of the mass: below 1 shows words that share their mass beside one that keeps its own
    length : the number of positions of the text where the maps hold a sample of them
    """
    from matplotlib.colors import PowerNorm

    for place, (axis, values, title) in enumerate(zip(axes, maps, titles, strict=True)):
        top = max(float(values.max(initial=0.0)), 1e-12)
        # Positions are counted from 1.
        extent = (0.5, (values.shape[1] if length is None else max(length, 1)) + 0.5, len(words) - 0.5, -0.5)
        axis.imshow(values, aspect="auto", cmap="Greys", norm=PowerNorm(power, 0, top), interpolation="nearest", extent=extent)
        axis.set_title(title, fontsize=10)
        axis.set_yticks(range(len(words)), words if place == 0 else [""] * len(words), fontsize=8)
        axis.tick_params(length=0)
        if 0 < len(tokens) <= 16:
            axis.set_xticks(range(1, len(tokens) + 1), tokens, rotation=90, fontsize=7)
        else:
            axis.set_xlabel("position", fontsize=8)
            axis.tick_params(axis="x", labelsize=7)


def plot_pyramid(
    maps: Sequence[NDArray[np.floating]],
    scales: Sequence[float],
    words: Sequence[str],
    path: str | Path,
    tokens: Sequence[str] = (),
) -> None:
    """Draws a text's pyramid as a row of heat maps into the file `path`.

    `maps` are `Level.dense()` or rows of it, whose `words` are given, one per scale of `scales`; `tokens` are the words of the
    text.
    """
    figure = new_figure(1.2 + 2.1 * len(maps), max(2.2, 0.55 + 0.21 * len(words) + (0.6 if tokens else 0)))
    axes = figure.subplots(1, len(maps), squeeze=False)[0]
    draw_pyramid(axes, maps, [scale_name(scale) for scale in scales], words, tokens)
    save_figure(figure, path)
