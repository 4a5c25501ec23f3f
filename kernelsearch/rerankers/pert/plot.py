"""The plot of `pert`: terms of an expansion in perturbation coordinates, as in the paper's Figure 2b."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.plots.figures import literal_text, new_figure, save_figure
from kernelsearch.rerankers.pert.expansion import PertExpansion

Floats = NDArray[np.float64]


def plane(expansion: PertExpansion) -> tuple[Floats, tuple[str, str]]:
    """Two coordinates per term of `expansion`, shape (words, 2), and the labels of the axes.

    Figure 2 plots log phi, but phi can be negative: sign(phi) log(1 + |phi| / median |phi|) is drawn instead. With two variants
    the axes are the variants; with more they are the first two principal components; with one they are its change and the
    term's probability.
    """
    phi, names = expansion.choice.coordinates, expansion.choice.variants
    middle = float(np.median(np.abs(phi))) or 1.0
    spread = np.sign(phi) * np.log1p(np.abs(phi) / middle)
    if phi.shape[1] == 1:
        return np.column_stack([spread[:, 0], np.log10(expansion.p)]), (f"change {names[0]}", "log10 of the word's probability")
    if phi.shape[1] == 2:
        return spread, (f"change {names[0]}", f"change {names[1]}")
    centred = spread - spread.mean(axis=0)
    left, strengths, _ = np.linalg.svd(centred, full_matrices=False)
    points = np.zeros((len(phi), 2))  # one word has one component
    points[:, : min(len(strengths), 2)] = left[:, :2] * strengths[:2]
    share = [*(100 * strengths**2 / max(float((strengths**2).sum()), 1e-12)), 0.0]
    labels = (f"first component of {phi.shape[1]} changes ({share[0]:.0f}%)", f"second component ({share[1]:.0f}%)")
    return points, labels


def plot(expansion: PertExpansion, groups: NDArray[np.integer], path: Path) -> None:
    """Draws the terms of an expansion into the PNG or SVG file `path`; squares are query terms.

    `groups` (words,) gives the colours.
    """
    points, (across, up) = plane(expansion)
    figure = new_figure(7.2, 5.4, dpi=110)
    axis = figure.subplots()
    own = np.arange(len(points)) < expansion.query_terms
    sizes = 12 + 260 * np.sqrt(expansion.weights / expansion.weights.max())
    for group in np.unique(groups):
        colour = f"C{int(group) % 10}"
        for marker, chosen in (("o", (groups == group) & ~own), ("s", (groups == group) & own)):
            if chosen.any():
                edge = "black" if marker == "s" else "none"
                axis.scatter(
                    points[chosen, 0],
                    points[chosen, 1],
                    s=sizes[chosen],
                    c=colour,
                    marker=marker,
                    alpha=0.55,
                    edgecolors=edge,
                    linewidths=1.2,
                )
    if expansion.choice.coordinates.shape[1] > 1:
        axis.axhline(0, color="0.85", linewidth=0.8, zorder=0)
        axis.axvline(0, color="0.85", linewidth=0.8, zorder=0)
    axis.margins(0.12)
    axis.set_xlabel(across)
    axis.set_ylabel(up)
    axis.set_title(f"{expansion.query.text.strip()[:80]!r}: squares are the query's terms, size is weight", fontsize=10)
    radii = np.sqrt(sizes) / 2 * figure.dpi / 72
    place_labels(axis, points, radii, list(expansion.words), bold=own, order=np.argsort(-expansion.weights, kind="stable"))
    save_figure(figure, path, dpi=110)


def place_labels(
    axis: Any, points: Floats, radii: Floats, labels: list[str], *, bold: NDArray[np.bool_], order: NDArray[np.integer]
) -> list[Any]:
    """Writes a label beside each point so that labels don't overlap, and returns the labels' bounding boxes in pixels.

    `axis` is the Matplotlib axes. `points` is (points, 2) in data coordinates, `radii` (points,) are those of the markers in
    pixels, `bold` (points,) says which labels are bold. Labels are placed in `order`, each as near to its point as is free; a
    thin line joins a distant label to its point. Where no place is free, a label covers a marker rather than another label.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.transforms import Bbox

    figure = axis.figure
    literal_text(figure)
    figure.draw_without_rendering()  # computes the layout, which label positions depend on
    axis.set_autoscale_on(False)
    figure.set_layout_engine("none")
    canvas: Any = FigureCanvasAgg(figure)
    renderer = canvas.get_renderer()  # measures text; the file may still be an SVG
    frame = axis.get_window_extent(renderer)
    spots = axis.transData.transform(points)
    markers = [Bbox.from_bounds(x - r, y - r, 2 * r, 2 * r) for (x, y), r in zip(spots, 0.8 * radii, strict=True)]
    boxes: dict[int, Any] = {}
    for number in order.tolist():
        weight = "bold" if bold[number] else "normal"
        text = axis.text(0, 0, labels[number], fontsize=8, fontweight=weight, ha="center", va="center", parse_math=False)
        size = text.get_window_extent(renderer)
        options = list(_around(spots[number], radii[number] + 3, size.width + 2, size.height + 2, frame))
        clear = (
            next((box for box in options if not any(map(box.overlaps, obstacles))), None)
            for obstacles in ([*boxes.values(), *markers], list(boxes.values()))
        )
        box = next((place for place in clear if place is not None), options[0])
        boxes[number] = box
        middle = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
        text.set_position(axis.transData.inverted().transform(middle))
        gap = max(abs(middle[0] - spots[number][0]) - size.width / 2, abs(middle[1] - spots[number][1]) - size.height / 2)
        if gap > radii[number] + 12:
            ends = axis.transData.inverted().transform([spots[number], middle])
            axis.plot(ends[:, 0], ends[:, 1], color="0.6", linewidth=0.5, zorder=0)
    return [boxes[number] for number in range(len(labels))]


def _around(spot: Floats, reach: float, width: float, height: float, frame: Any) -> Iterator[Any]:
    """Boxes of a size around a point inside the frame, nearest first, beginning `reach` pixels from it."""
    from matplotlib.transforms import Bbox

    angles = np.deg2rad([0, 180, 90, 270, 30, 150, 210, 330, 60, 120, 240, 300])
    for farther in range(0, 400, 8):
        for angle in angles:
            x = spot[0] + np.cos(angle) * (reach + farther + width / 2) - width / 2
            y = spot[1] + np.sin(angle) * (reach + farther + height / 2) - height / 2
            if frame.x0 <= x and x + width <= frame.x1 and frame.y0 <= y and y + height <= frame.y1:
                yield Bbox.from_bounds(x, y, width, height)
