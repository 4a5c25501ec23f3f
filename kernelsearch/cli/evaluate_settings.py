"""The options of evaluate."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kernelsearch.core.options import Settings, option
from kernelsearch.evaluation.comparison import Procedure
from kernelsearch.evaluation.measures import DEFAULT
from kernelsearch.evaluation.tables import FORMATS


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Settings):
    """What is measured, and how it is printed."""

    qrels: str | None = option(None, "relevance judgements: a TREC or BEIR file, or irds:NAME")
    measures: tuple[str, ...] = option(
        DEFAULT, "measures, by their names in ir_measures or trec_eval; with a baseline R-Loss@1000 as well"
    )
    per_query: bool = option(False, "print the values of every topic as well")
    complete: bool = option(True, "count judged topics that a run lacks as zero, as trec_eval -c does")
    format: str = option("text", "format of the results", choices=FORMATS)
    output: str | None = option(None, "file to write the results to instead of printing them")


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(Settings):
    """The run to compare with; `Procedure` has the other options of a comparison."""

    baseline: str | None = option(None, "run file to compare the other runs with")
    all_pairs: bool = option(False, "test every pair of runs, not only against the baseline; corrected over all pairs")


@dataclass(frozen=True, kw_only=True)
class ReportSettings(Settings):
    """The HTML page."""

    html: str | None = option(None, "HTML file to write tables and plots to; plots of differences and risk need --baseline")
    topics: str | None = option(None, "topics, to show their texts on the page: a file or irds:NAME")


def check_all_pairs(parser: argparse.ArgumentParser, runs: int, kind: str, procedure: Procedure) -> None:
    """Ends the command through `parser` where `--all-pairs` can't be done or shown.

    `runs` is the number of runs, `kind` the format of the results, `procedure` has the test.
    """
    if runs < 2:
        parser.error("--all-pairs: needs at least two runs")
    if kind == "csv":
        parser.error("--all-pairs: has no place in --format csv; use json, text, markdown or latex")
    if procedure.test == "none":
        parser.error("--all-pairs: needs a --test")
