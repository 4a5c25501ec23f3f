"""docs/speed.md: one section per group, so that a run of some groups replaces their sections only."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from tools.bench.speed.measuring import Row

HEAD = """# Speed beside other libraries

Each path of kernelsearch beside a peer in the same run. A ratio below 1 means that kernelsearch takes less. Path and peer take
turns, so that a busy machine slows both alike; the tables have medians over the repetitions, and the range of the ratios (of
the times where there is no peer). CPU time is that of all threads of a process and of those that it starts. *Growth* is how
many times longer path and peer take on the larger collection. The collection is synthetic (`tools/data/synthetic.py`).

`make bench` measures all of it and writes this page; `make bench BENCH_ARGS="--only service,vectors"` replaces two sections.
Each section says when, where and for how long it was measured{total}. Large collections are in [memory limits and
Dask](scale.md), other measurements against Pyserini in [the Lucene bridge](measurements/bridge.md).

"""
#: How a section says how long its measurements took.
DURATION = re.compile(r"\bThis took (\d+) seconds")
COLUMNS = ("path", "peer", "documents", "unit", "kernelsearch", "peer's", "ratio", "range", "growth, path / peer")


@dataclass(frozen=True)
class Section:
    """A group's heading and what a reader needs to know about its measurements."""

    title: str
    notes: str


def write_page(path: Path, new: dict[str, str], order: Sequence[Section]) -> None:
    """Writes the page at `path`: the sections that were measured, and those of the old page for the others.

    `new` are the texts of measured sections by title, `order` are all sections in the order of the page.
    """
    old = _sections(path.read_text(encoding="utf-8")) if path.exists() else {}
    sections = [new.get(section.title) or old.get(section.title) for section in order]
    path.write_text(_head(sections) + "\n".join(text for text in sections if text), encoding="utf-8")


def _head(sections: Sequence[str | None]) -> str:
    """The page's beginning, with the minutes of all `sections` where each says how long it took."""
    durations = [DURATION.search(text or "") for text in sections]
    seconds = [int(found[1]) for found in durations if found is not None]
    complete = len(seconds) == len(sections)
    return HEAD.format(total=f": {sum(seconds) / 60:.1f} minutes in all" if complete else "")


def _sections(text: str) -> dict[str, str]:
    """The sections of a page by title, each with its heading."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)[1:]
    return {part.splitlines()[0].removeprefix("## "): part.rstrip() + "\n" for part in parts}


def render(section: Section, rows: list[Row], missing: dict[str, str], load: float, seconds: float) -> str:
    """A section in Markdown: a table of its `rows`, what is `missing` (reasons by task), and when and where it was measured.

    `load` is the machine's load average at the beginning; the measurements took `seconds`.
    """
    lines = [f"## {section.title}", ""]
    if rows:
        lines += [f"| {' | '.join(COLUMNS)} |", "| --- | --- | ---: | --- | ---: | ---: | ---: | --- | --- |"]
        lines += [f"| {' | '.join(cells(row, rows))} |" for row in rows]
        slower = [f"{row.path} ({row.documents:,}): {row.peer}, {row.ratio:.2f}" for row in rows if row.ratio and row.ratio > 1]
        lines += ["", f"The peer takes less: {'; '.join(slower) if slower else 'nowhere in this table'}."]
    if missing:
        absent = "; ".join(f"{name} ({reason})" for name, reason in missing.items())
        lines += ["", f"Not measured, because it is not installed or did not run: {absent}."]
    day = datetime.now(UTC).strftime("%Y-%m-%d")
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    cores = os.cpu_count() or 1
    shared = f": other programs shared the {cores} cores, and times are longer than on an idle machine" if load > cores else ""
    repeated = max((row.repetitions for row in rows), default=0)
    lines += [
        "",
        f"{section.notes} {repeated} repetitions; rows without a range were measured once. Measured {day} on {machine}, "
        f"load average {load:.1f} when it began{shared}. This took {seconds:.0f} seconds.",
    ]
    return "\n".join(lines) + "\n"


def cells(row: Row, rows: Sequence[Row]) -> tuple[str, ...]:
    """The cells of a row of the table; `rows` are all of the section, with which growth is computed."""
    spread = f"{number(row.least)} to {number(row.most)}" if row.repetitions > 1 else ""
    theirs = "" if row.theirs is None else number(row.theirs)
    ratio = "" if row.ratio is None else number(row.ratio)
    return (row.path, row.peer, f"{row.documents:,}", row.unit, number(row.ours), theirs, ratio, spread, _growth(row, rows))


def _growth(row: Row, rows: Sequence[Row]) -> str:
    """How much longer path and peer take than on the smallest collection with the same row."""
    same = [other for other in rows if (other.path, other.peer, other.unit) == (row.path, row.peer, row.unit)]
    smallest = min(same, key=lambda other: other.documents)
    if smallest is row or not smallest.ours:
        return ""
    own = number(row.ours / smallest.ours)
    return f"{own} / {number(row.theirs / smallest.theirs)}" if row.theirs and smallest.theirs else own


def number(value: float) -> str:
    """A `value` with three digits, or all digits before the point."""
    if value == 0:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
