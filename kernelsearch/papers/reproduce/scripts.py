"""Longer reproductions: scripts that compute the tables of a paper; the committed pages hold the expected figures."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from kernelsearch.core.errors import InputError
from kernelsearch.papers.reproduce.conditions import Conditions, Script, count_verdicts

#: Measures are printed with four decimals; times, counts and shares are not, and may change.
FIGURE = re.compile(r"(?<![\d.])[01]?\.\d{4}(?!\d)")

#: Heading, number of the table below it, row, number of rows above with the same name, column, number within the cell.
Place = tuple[str, int, str, int, str, int]


def page_figures(page: str) -> dict[Place, float]:
    """The figures in the tables of a Markdown page, by their place."""
    figures: dict[Place, float] = {}
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
                figures[heading, table, row, rows.count(row), column, number] = float(figure)
        rows.append(row)
    return figures


def run_script(conditions: Conditions, script: Script, scratch: Path, report: Callable[[str], None]) -> list[str]:
    """Runs a script from the root of the checkout and compares each figure of its page with the page before.

    `conditions` have the tolerance of figures, `script` is the one to run, `scratch` a folder for its files. Lines about the
    outcome are passed to `report`. Returns the verdict of each figure, or one FAIL where the script fails or writes no page.
    """
    page = Path(script.page)
    before = page.read_text(encoding="utf-8") if page.is_file() else ""
    for command in script.commands:
        if not Path(command[0]).is_file():
            raise InputError(f"{script.name}: {command[0]} is not here; scripts run from the root of a checkout")
        module = ".".join(Path(command[0]).with_suffix("").parts)  # so that it can import the other tools
        arguments = [part.replace("{scratch}", str(scratch / script.name)) for part in command[1:]]
        status = subprocess.run([sys.executable, "-m", module, *arguments]).returncode
        if status:
            report(f"{script.name:<13} FAIL ({command[0]} failed with status {status})")
            return ["FAIL"]
    if not page.is_file():
        report(f"{script.name:<13} FAIL ({script.page} was not written)")
        return ["FAIL"]
    return compare_pages(conditions, script, before, page.read_text(encoding="utf-8"), report)


def compare_pages(conditions: Conditions, script: Script, before: str, after: str, report: Callable[[str], None]) -> list[str]:
    """The verdict of each figure of either page, `before` and `after`: texts of the page of `script`.

    Figures that don't agree by the tolerance of `conditions` are passed to `report` one by one, the others counted.
    """
    expected, measured = page_figures(before), page_figures(after)
    verdicts = []
    for place in dict.fromkeys([*expected, *measured]):
        if place not in measured:
            verdict, text = "FAIL", f"{expected[place]:.4f} is gone"
        elif place not in expected:
            verdict, text = "new", f"{measured[place]:.4f}"
        else:
            verdict = conditions.judge(expected[place], measured[place])
            text = f"{measured[place]:.4f} (expected {expected[place]:.4f})"
        verdicts.append(verdict)
        if verdict in ("OKish", "FAIL"):
            report(f"{script.name:<13} {place[0]} · {place[2]} · {place[4]}: {text} {verdict}")
    report(f"{script.name:<13} {script.page} written: {count_verdicts(verdicts) or 'no figure in it'}")
    return verdicts or ["FAIL"]
