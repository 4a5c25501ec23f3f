"""Risk and reward of an expansion by its weight, as figures and as a picture: Figure 3 of the paper cited at `risk.r_loss`.

`baseline`, `treatment` and the counts of relevant documents are those of `kernelsearch.evaluation.risk`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from kernelsearch.core.errors import OptionError
from kernelsearch.evaluation.risk import changes, helped, hurt, lost, r_loss, trisk, urisk
from kernelsearch.plots.figures import new_figure, save_figure

AXES = {"hurt": "queries hurt", "lost": "AP lost in total", "r_loss": "R-Loss (relevant documents lost by hurt queries)"}


def relative_gain(baseline: ArrayLike, treatment: ArrayLike) -> float:
    """The gain of the mean as a fraction of the mean of the baseline, 0 where that is 0.

    `baseline` and `treatment` are those of `changes`.
    """
    before = float(np.mean(np.asarray(baseline, dtype=np.float64)))
    return float(changes(baseline, treatment).mean() / before) if before > 0 else 0.0


@dataclass(frozen=True)
class RiskPoint:
    """A treatment compared with the baseline: its reward, and several figures of risk."""

    alpha: float
    mean: float
    gain: float  #: gain of the mean as a fraction of the mean of the baseline
    helped: int
    hurt: int
    lost: float
    r_loss: int | None  #: None without counts of relevant documents
    urisk: float
    trisk: float


def risk_point(
    baseline: ArrayLike,
    treatment: ArrayLike,
    *,
    alpha: float = float("nan"),
    relevant_before: ArrayLike | None = None,
    relevant_after: ArrayLike | None = None,
    aversion: float = 1.0,
) -> RiskPoint:
    """All figures of one treatment. `alpha` labels the point, `aversion` is the alpha of URisk and TRisk.

    `baseline` and `treatment` are those of `changes`, `relevant_before` and `relevant_after` those of `r_loss`.
    """
    return RiskPoint(
        alpha=alpha,
        mean=float(np.mean(np.asarray(treatment, dtype=np.float64))),
        gain=relative_gain(baseline, treatment),
        helped=helped(baseline, treatment),
        hurt=hurt(baseline, treatment),
        lost=lost(baseline, treatment),
        r_loss=None
        if relevant_before is None or relevant_after is None
        else int(r_loss(baseline, treatment, relevant_before, relevant_after).sum()),
        urisk=urisk(baseline, treatment, aversion),
        trisk=trisk(baseline, treatment, aversion),
    )


def risk_reward_curve(
    alphas: Sequence[float],
    baseline: ArrayLike,
    treatments: Sequence[ArrayLike],
    *,
    relevant_before: ArrayLike | None = None,
    relevant_after: Sequence[ArrayLike] | None = None,
    aversion: float = 1.0,
) -> list[RiskPoint]:
    """The figures for each of `alphas`, weights of a query expansion.

    `treatments` has one array of values per alpha, `relevant_after` one array of counts; `baseline`, `relevant_before` and
    `aversion` are those of `risk_point`.
    """
    after = list(relevant_after) if relevant_after is not None else [None] * len(treatments)
    return [
        risk_point(
            baseline, treatment, alpha=alpha, relevant_before=relevant_before, relevant_after=relevant, aversion=aversion
        )
        for alpha, treatment, relevant in zip(alphas, treatments, after, strict=True)
    ]


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
