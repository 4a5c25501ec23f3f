"""Longer reproductions: scripts that measure a paper's tables anew; the pages that they write, as committed, are expected."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from kernelsearch.core.errors import InputError
from kernelsearch.reproduce.conditions import Conditions, Script, counted

#: Measures are printed with four decimals; times, counts and shares are not, and are free to change.
FIGURE = re.compile(r"(?<![\d.])[01]?\.\d{4}(?!\d)")

#: Heading, number of the table below it, row, how many rows of this name stand above it, column, number within the cell.
Place = tuple[str, int, str, int, str, int]


def page_figures(page: str) -> dict[Place, float]:
    """The figures in a page's tables."""
    found: dict[Place, float] = {}
    heading, table = "", 0
    columns: list[str] = []
    rows: list[str] = []
    for line in page.splitlines():
        if line.startswith("#"):
            heading, table = line.lstrip("# "), 0
        if not line.startswith("|"):
            columns = []
            continue
        row, *cells = (cell.strip(" *") for cell in line.strip().strip("|").split("|"))
        if not columns:
            columns, rows, table = cells, [], table + 1
            continue
        for column, cell in zip(columns, cells, strict=False):
            for number, figure in enumerate(FIGURE.findall(cell)):
                found[heading, table, row, rows.count(row), column, number] = float(figure)
        rows.append(row)
    return found


def run_script(conditions: Conditions, script: Script, scratch: Path) -> list[str]:
    """Runs a script from the checkout's root and holds each figure of its page against the page that was there."""
    page = Path(script.page)
    before = page.read_text(encoding="utf-8") if page.is_file() else ""
    for command in script.commands:
        if not Path(command[0]).is_file():
            raise InputError(f"{script.name}: {command[0]} is not here; scripts run from the root of a checkout")
        module = ".".join(Path(command[0]).with_suffix("").parts)  # so that it can import the other tools
        arguments = [part.replace("{scratch}", str(scratch / script.name)) for part in command[1:]]
        done = subprocess.run([sys.executable, "-m", module, *arguments])
        if done.returncode:
            print(f"{script.name:<13} FAIL ({command[0]} failed with status {done.returncode})", flush=True)
            return ["FAIL"]
    if not page.is_file():
        print(f"{script.name:<13} FAIL ({script.page} was not written)", flush=True)
        return ["FAIL"]
    return compare_pages(conditions, script, before, page.read_text(encoding="utf-8"))


def compare_pages(conditions: Conditions, script: Script, before: str, after: str) -> list[str]:
    """A verdict for each figure of either page; figures that don't agree are printed, the rest are counted."""
    wanted, got = page_figures(before), page_figures(after)
    verdicts = []
    for place in dict.fromkeys([*wanted, *got]):
        if place not in got:
            verdict, said = "FAIL", f"{wanted[place]:.4f} is gone"
        elif place not in wanted:
            verdict, said = "new", f"{got[place]:.4f}"
        else:
            verdict, said = conditions.judge(wanted[place], got[place]), f"{got[place]:.4f} (expected {wanted[place]:.4f})"
        verdicts.append(verdict)
        if verdict in ("OKish", "FAIL"):
            print(f"{script.name:<13} {place[0]} · {place[2]} · {place[4]}: {said} {verdict}", flush=True)
    print(f"{script.name:<13} {script.page} written: {counted(verdicts) or 'no figure in it'}", flush=True)
    return verdicts or ["FAIL"]
