"""Plain text tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]], *, align: str = "") -> str:
    """A plain text table; `align` has one of < and > per column (numbers are usually >)."""
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
