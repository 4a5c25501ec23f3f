"""Small plots as SVG text: bars, lines and points on two axes. No library: a report must open anywhere, and stay small."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape

#: Okabe and Ito's colours, which people with any colour vision can tell apart.
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#000000", "#999999")
GAIN, LOSS = "#0072b2", "#d55e00"


@dataclass
class Plot:
    """A plot that grows by `bars`, `line` and `points`; `svg` gives the picture.

    Data limits are given up front, so that every mark can be placed as it is added.
    """

    xlim: tuple[float, float]
    ylim: tuple[float, float]
    xlabel: str = ""
    ylabel: str = ""
    width: int = 640
    height: int = 320
    xticks: Sequence[float] | None = None  #: None: round numbers; empty: none
    _marks: list[str] = field(default_factory=list)
    _legend: list[tuple[str, str]] = field(default_factory=list)

    LEFT, RIGHT, TOP, BOTTOM = 62, 12, 12, 44

    def __post_init__(self) -> None:
        self.xlim, self.ylim = _widened(self.xlim), _widened(self.ylim)

    def x(self, value: float) -> float:
        """Where `value` of the horizontal axis lies, in pixels from the left."""
        low, high = self.xlim
        return self.LEFT + (value - low) / (high - low) * (self.width - self.LEFT - self.RIGHT)

    def y(self, value: float) -> float:
        """Where `value` of the vertical axis lies, in pixels from the top."""
        low, high = self.ylim
        return self.height - self.BOTTOM - (value - low) / (high - low) * (self.height - self.TOP - self.BOTTOM)

    def bars(self, values: Sequence[float], titles: Sequence[str]) -> None:
        """Draws one bar per value of `values`, from zero, at 0, 1, 2, ...; gains and losses have two colours.

        `titles` are the texts that a browser shows while the pointer is on a bar.
        """
        step = self.x(1) - self.x(0)
        wide = step * 0.8 if step > 3 else step
        for place, (value, title) in enumerate(zip(values, titles, strict=True)):
            top, bottom = self.y(max(value, 0.0)), self.y(min(value, 0.0))
            colour = GAIN if value > 0 else LOSS
            # An unchanged topic keeps a hair's height, so that it can be pointed at.
            self._marks.append(
                f'<rect class="mark" x="{self.x(place) + (step - wide) / 2:.2f}" y="{top:.2f}" width="{wide:.2f}" '
                f'height="{max(bottom - top, 0.5):.2f}" fill="{colour}"><title>{escape(title)}</title></rect>'
            )

    def line(
        self, points: Sequence[tuple[float, float]], label: str = "", colour: str = COLOURS[0], dashed: bool = False
    ) -> None:
        """A line through `points` (x, y) in a `colour`, `dashed` or not, listed in the legend if it has a `label`."""
        path = " ".join(f"{self.x(x):.2f},{self.y(y):.2f}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._marks.append(f'<polyline class="mark" points="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dash}/>')
        if label:
            self._legend.append((label, colour))

    def points(
        self, points: Sequence[tuple[float, float]], titles: Sequence[str], colour: str = COLOURS[0], label: str = ""
    ) -> None:
        """Dots at `points` (x, y) in a `colour`, with `titles` under the mouse, listed in the legend if they have a `label`."""
        for (x, y), title in zip(points, titles, strict=True):
            self._marks.append(
                f'<circle class="mark" cx="{self.x(x):.2f}" cy="{self.y(y):.2f}" r="4.5" fill="{colour}">'
                f"<title>{escape(title)}</title></circle>"
            )
        if label:
            self._legend.append((label, colour))

    def svg(self, title: str) -> str:
        """The whole picture; `title` is read to people who can't see it."""
        right, bottom = self.width - self.RIGHT, self.height - self.BOTTOM
        parts = [
            f'<svg viewBox="0 0 {self.width} {self.height}" role="img" aria-label="{escape(title, quote=True)}" '
            'xmlns="http://www.w3.org/2000/svg">'
        ]
        for value in round_ticks(*self.ylim):
            place = self.y(value)
            heavy = ' class="zero"' if abs(value) < 1e-12 else ' class="grid"'
            parts.append(f'<line{heavy} x1="{self.LEFT}" x2="{right}" y1="{place:.2f}" y2="{place:.2f}"/>')
            parts.append(f'<text x="{self.LEFT - 6}" y="{place + 4:.2f}" text-anchor="end">{_label(value)}</text>')
        for value in round_ticks(*self.xlim) if self.xticks is None else self.xticks:
            place = self.x(value)
            parts.append(f'<line class="grid" x1="{place:.2f}" x2="{place:.2f}" y1="{self.TOP}" y2="{bottom}"/>')
            parts.append(f'<text x="{place:.2f}" y="{bottom + 16}" text-anchor="middle">{_label(value)}</text>')
        middle = (self.LEFT + right) / 2
        parts.append(
            f'<text class="label" x="{middle}" y="{self.height - 8}" text-anchor="middle">{escape(self.xlabel)}</text>'
        )
        centre = (self.TOP + bottom) / 2
        parts.append(
            f'<text class="label" transform="translate(14 {centre}) rotate(-90)" text-anchor="middle">'
            f"{escape(self.ylabel)}</text>"
        )
        return "".join([*parts, *self._marks, "</svg>", self._legend_html()])

    def _legend_html(self) -> str:
        if not self._legend:
            return ""
        keys = "".join(f'<li><span style="background:{colour}"></span>{escape(label)}</li>' for label, colour in self._legend)
        return f'<ul class="legend">{keys}</ul>'


def round_ticks(low: float, high: float, count: int = 6) -> list[float]:
    """About `count` round numbers between the limits `low` and `high`."""
    raw = (high - low) / count
    magnitude = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 5, 10) if factor * magnitude >= raw * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [number * step for number in range(first, math.floor(high / step + 1e-9) + 1)]


def _widened(limits: tuple[float, float]) -> tuple[float, float]:
    """Limits that are never the same number."""
    low, high = limits
    return (low, high) if high - low > 1e-9 else (low - 0.5, high + 0.5)


def _label(value: float) -> str:
    return f"{round(value, 10):g}".replace("-", "−")
