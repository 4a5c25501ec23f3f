"""Tables: as plain text, and the library of data frames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from kernelsearch.core.errors import OptionError


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, align: str = "") -> str:
    """Returns a plain text table, one line for each of `rows`, with a line of dashes below the header.

    `align` has one character per column: `<` for left, `>` for right (numbers). By default the first column is left-aligned,
    the others are right-aligned.

    >>> print(text_table(("measure", "value"), [("MAP", 0.25)]))
    measure  value
    -------  -----
    MAP       0.25
    """
    cells = [[str(cell) for cell in row] for row in rows]
    columns = list(zip(*([list(header), *cells]), strict=True)) if header else []
    widths = [max(len(cell) for cell in column) for column in columns]
    align = align or "<" + ">" * (len(header) - 1)
    out = []
    for number, row in enumerate([list(header), *cells]):
        out.append("  ".join(f"{cell:{side}{width}}" for cell, side, width in zip(row, align, widths, strict=True)).rstrip())
        if number == 0:
            out.append("  ".join("-" * width for width in widths))
    return "\n".join(out)


def import_pandas() -> Any:
    """The module pandas; raises OptionError where it is not installed."""
    try:
        import pandas
    except ImportError:
        raise OptionError("a DataFrame needs pandas; pip install pandas") from None
    return pandas
