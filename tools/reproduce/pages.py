"""What the generators of docs/reproductions share: numbers, Markdown tables, marked parts of a page."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def rounded(value: float) -> str:
    """A measure's `value` with four decimals and without the leading zero."""
    return f"{value:.4f}".removeprefix("0")


def risk(change: NDArray[np.float64]) -> str:
    """Topics that lose and gain more than .01 AP, and the sum of the AP that topics lose: "(hurt/helped, lost)".

    `change` (topics,) is the difference in AP; the sum is left out where no topic loses.
    """
    lost = f", {-change[change < 0].sum():.1f}" if (change < 0).any() else ""
    return f"({(change < -0.01).sum()}/{(change > 0.01).sum()}{lost})"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of `header` and `rows` whose first column is text and whose other columns are numbers."""
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def replace_between(text: str, begin: str, end: str, body: str) -> str:
    """The `text` with `body`, on lines of its own, between the markers `begin` and `end`; SystemExit where it has none."""
    head, opened, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    if not opened or not closed:
        raise SystemExit(f"the page has no part between {begin} and {end}")
    return f"{head}{begin}\n{body}\n{end}{tail}"
