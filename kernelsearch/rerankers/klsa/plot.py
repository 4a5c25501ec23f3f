"""The plot of `klsa`: documents in the first two latent dimensions, and the query among them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.klsa.explanation import plane, query_path

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from kernelsearch.rerankers.klsa.reranker import KernelLSA


def plot(reranker: KernelLSA, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context) -> None:
    """Draws documents in the first two latent dimensions, and the query's position among them as z grows.

    `reranker` has the basis, `path` is the file; the other parameters are those of `Reranker.plot`. `doc`, if given, is marked
    and labelled besides the first documents after reranking. Raises OptionError where the basis has one dimension.
    """
    if reranker.basis.dims < 2:
        raise OptionError("the basis has one dimension only; two are drawn", option=Flag("plot"))
    figure = new_figure(8.5, 6)
    axes = figure.add_subplot()
    points = plane(reranker)
    shown = np.random.default_rng(0).permutation(len(points))[:4000]
    axes.scatter(
        points[shown, 0], points[shown, 1], s=4, color="0.82", linewidths=0, label="documents", zorder=1, rasterized=True
    )
    listed = candidates.docs[:100]
    label = f"first {len(listed)} of the first stage"
    axes.scatter(points[listed, 0], points[listed, 1], s=14, color="#7aa6c2", linewidths=0, label=label, zorder=2)
    ranked = reranker.apply(query, candidates, context)
    marked = list(dict.fromkeys([*([doc] if doc is not None else []), *ranked.docs[:8].tolist()]))
    axes.scatter(
        points[marked, 0], points[marked, 1], s=26, color="#c8553d", linewidths=0, label="first 8 after klsa", zorder=3
    )
    _draw_path(axes, reranker, query, candidates)
    _label(axes, points[marked], reranker.index.forward.docids.take(marked), emphasised=0 if doc is not None else None)
    for axis, dimension in ((axes.set_xlabel, 0), (axes.set_ylabel, 1)):
        axis(
            f"dimension {dimension + 1}: " + ", ".join(sign + term for sign, term in reranker.basis.strongest_terms(dimension))
        )
    axes.set_title(query.text if len(query.text) <= 90 else query.text[:87] + "...", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=4, frameon=False, fontsize=8)
    save_figure(figure, path)


def _draw_path(axes: Axes, reranker: KernelLSA, query: Query, candidates: Candidates) -> None:
    """The query's position for z = 1, 2, 5, ..., with the z of the settings marked."""
    steps, positions = query_path(reranker, query, candidates)
    path = positions[np.array(steps) - 1]
    axes.plot(
        path[:, 0],
        path[:, 1],
        color="black",
        linewidth=1,
        marker="o",
        markersize=3,
        label="query as z grows",
        zorder=4,
    )
    used = min(reranker.z, len(positions))
    chosen = positions[used - 1]
    axes.scatter([chosen[0]], [chosen[1]], marker="*", s=150, color="#e3b505", edgecolors="black", linewidths=0.7, zorder=5)
    halo = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none", "alpha": 0.8}
    for z in sorted({1, used, steps[-1]}):
        axes.annotate(
            f"query, z = {z}" if z == used else f"z = {z}",
            positions[z - 1],
            xytext=(7, 9),
            textcoords="offset points",
            fontsize=8,
            weight="bold" if z == used else "normal",
            bbox=halo,
            zorder=6,
        )


def _label(axes: Axes, points: NDArray[np.float32], names: list[str], emphasised: int | None) -> None:
    """Writes names in a column at the right edge, each with a line to its point, sorted by height: they don't overlap."""
    low, high = axes.get_ylim()
    _, right = axes.get_xlim()
    order = np.argsort(points[:, 1])
    slots = np.linspace(0.12, 0.88, len(names)) * (high - low) + low
    for slot, number in zip(slots, order, strict=True):
        axes.annotate(
            names[number] if len(names[number]) <= 24 else names[number][:23] + "…",
            xy=points[number],
            xytext=(right, slot),
            fontsize=8,
            va="center",
            weight="bold" if number == emphasised else "normal",
            arrowprops={"arrowstyle": "-", "color": "0.6", "linewidth": 0.5, "shrinkB": 3},
            annotation_clip=False,
        )
