"""Pictures of risk: risk-reward curves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from kernelsearch.core.errors import OptionError
from kernelsearch.plots.figures import new_figure, save_figure


class RiskPoint(Protocol):
    """A point of a risk-reward curve: the mean's relative gain, and what it cost by several measures of risk."""

    @property
    def gain(self) -> float: ...


AXES = {"hurt": "queries hurt", "lost": "AP lost in total", "r_loss": "R-Loss (relevant documents lost by hurt queries)"}


def plot_risk_reward(
    panels: Mapping[str, Mapping[str, Sequence[RiskPoint]]], path: str | Path, *, risk: str = "r_loss", columns: int = 3
) -> None:
    """Draws curves (label -> points) in one panel per collection: risk to the right, reward upwards, up and left is better.

    `panels` is {collection: {label: points}}, `path` the file, `risk` the measure of risk, `columns` the panels per row.
    """
    if risk not in AXES:
        raise OptionError(f"risk axis {risk!r} is not one of {', '.join(AXES)}")
    columns = min(columns, len(panels))
    rows = -(-len(panels) // columns)
    figure = new_figure(4.3 * columns, 3.6 * rows)
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
    save_figure(figure, path, dpi=110)
