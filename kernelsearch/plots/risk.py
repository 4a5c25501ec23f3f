"""Pictures of risk: risk-reward curves and the histogram of changes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from kernelsearch.core.errors import OptionError


class RiskPoint(Protocol):
    """A point of a risk-reward curve: the mean's relative gain, and what it cost by several measures of risk."""

    @property
    def gain(self) -> float: ...


AXES = {"hurt": "queries hurt", "lost": "AP lost in total", "r_loss": "R-Loss (relevant documents lost by hurt queries)"}


def plot_risk_reward(
    panels: Mapping[str, Mapping[str, Sequence[RiskPoint]]], path: str | Path, *, risk: str = "r_loss", columns: int = 3
) -> None:
    """Draws curves (label -> points) in one panel a collection: risk to the right, reward upwards, so up and left is better."""
    if risk not in AXES:
        raise OptionError(f"risk axis {risk!r} is not one of {', '.join(AXES)}")
    from matplotlib.figure import Figure

    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(4.3 * columns, 3.6 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    styles = ("-", "--", "-.", ":")
    handles: dict[str, Any] = {}
    for axis, (title, curves) in zip(axes, panels.items(), strict=False):
        for number, (label, points) in enumerate(curves.items()):
            across = [float(getattr(point, risk) or 0) for point in points]
            up = [100 * point.gain for point in points]
            style = styles[(number // 10 + number) % len(styles)]
            (line,) = axis.plot(
                across, up, style, marker="o", markersize=2.5, linewidth=1.2, label=label, color=f"C{number % 10}"
            )
            handles[label] = line
        axis.axhline(0, color="0.7", linewidth=0.8, zorder=0)
        axis.axvline(0, color="0.7", linewidth=0.8, zorder=0)
        axis.set_title(title, fontsize=10)
        axis.set_xlabel(AXES[risk], fontsize=8)
        axis.set_ylabel("gain of the mean, %", fontsize=8)
        axis.tick_params(labelsize=8)
    spare = axes[len(panels) :]
    for axis in spare:
        axis.axis("off")
    if len(spare):
        spare[0].legend(handles.values(), handles.keys(), loc="center left", fontsize=8, frameon=False)
    else:
        figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=4, fontsize=8, frameon=False)
    _save(figure, path)


def plot_changes(baseline: ArrayLike, treatments: Mapping[str, ArrayLike], path: str | Path) -> None:
    """Draws how many queries changed by how much of their baseline value, one outline a treatment."""
    from matplotlib.figure import Figure

    before = np.asarray(baseline, dtype=np.float64)
    edges = np.array([-100, -75, -50, -25, -5, 5, 25, 50, 75, 100, 105])
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axis = figure.subplots()
    width = 0.8 / max(len(treatments), 1)
    names = [
        "-100 to -75",
        "-75 to -50",
        "-50 to -25",
        "-25 to -5",
        "-5 to 5",
        "5 to 25",
        "25 to 50",
        "50 to 75",
        "75 to 100",
        "above",
    ]
    for number, (label, treatment) in enumerate(treatments.items()):
        difference = np.asarray(treatment, dtype=np.float64) - before
        percent = 100 * np.divide(difference, before, out=np.sign(difference), where=before > 0)
        counts, _ = np.histogram(np.clip(percent, -100, 104), edges)
        axis.bar(np.arange(len(counts)) + width * (number + 0.5) - 0.4, counts, width, label=label)
    axis.set_xticks(np.arange(len(names)), names, rotation=35, ha="right", fontsize=8)
    axis.set_xlabel("change of a query, % of its baseline value", fontsize=8)
    axis.set_ylabel("queries", fontsize=8)
    axis.legend(fontsize=8, frameon=False)
    _save(figure, path)


def _save(figure: Any, path: str | Path) -> None:
    """Saves a picture so that drawing the same again gives the same file: no date, no random ids in an SVG."""
    from matplotlib import rc_context

    with rc_context({"svg.hashsalt": "kernelsearch", "svg.fonttype": "none"}):
        figure.savefig(path, dpi=110, metadata={"Date": None} if str(path).lower().endswith(".svg") else {})
