"""`python -m kernelsearch.evaluate`: measures of runs by relevance judgements, and comparison with a baseline."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.api.report import page
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags, require
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.files import write_file
from kernelsearch.core.options import Settings, option
from kernelsearch.evaluation.comparison import Procedure, compare
from kernelsearch.evaluation.measures import DEFAULT, parse_measures
from kernelsearch.evaluation.run_files import (
    RECALL_LEVELS,
    add_baseline,
    check_judged,
    evaluate_runs,
    read_runs,
    topic_messages,
)
from kernelsearch.evaluation.tables import FORMATS, render


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Settings):
    """What is measured, and how it is printed."""

    qrels: str | None = option(None, "relevance judgements: a TREC or BEIR file, or irds:NAME")
    measures: tuple[str, ...] = option(DEFAULT, "measures, by their names in ir_measures or trec_eval")
    per_query: bool = option(False, "print the values of every topic as well")
    complete: bool = option(True, "count judged topics that a run lacks as zero, as trec_eval -c does")
    format: str = option("text", "format of the results", choices=FORMATS)
    output: str | None = option(None, "file to write the results to instead of printing them")


@dataclass(frozen=True, kw_only=True)
class BaselineSettings(Settings):
    """The run to compare with; `Procedure` has the other options of a comparison."""

    baseline: str | None = option(None, "run file to compare the other runs with")


@dataclass(frozen=True, kw_only=True)
class ReportSettings(Settings):
    """The HTML page."""

    html: str | None = option(None, "HTML file to write tables and plots to; plots of differences and risk need --baseline")
    topics: str | None = option(None, "topics, to show their texts on the page: a file or irds:NAME")


EXAMPLES = """examples:
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt runs/klsa.txt --measures AP,nDCG@10,P@5 --per-query
  python -m kernelsearch.evaluate --qrels qrels.txt --baseline runs/bm25.txt runs/*.txt --test randomisation --format markdown
  python -m kernelsearch.evaluate --qrels qrels.txt --baseline runs/bm25.txt runs/klsa.txt --topics topics.tsv --html p.html"""


def main(argv: list[str]) -> None:
    """Parses the flags, evaluates and compares the runs, and prints or writes the results."""
    parser = console.Parser(prog="python -m kernelsearch.evaluate", description="Evaluates run files.", epilog=EXAMPLES)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run files")
    add_flags(parser, EvaluateSettings.options)
    add_flags(parser, (*BaselineSettings.options, *Procedure.options), title="comparison with a baseline")
    add_flags(parser, ReportSettings.options, title="HTML page")
    arguments = parser.parse_args(argv)
    settings, report = read_flags(EvaluateSettings, arguments), read_flags(ReportSettings, arguments)
    procedure = read_flags(Procedure, arguments)
    require(parser, settings, "qrels")
    paths, baseline = add_baseline(arguments.runs, read_flags(BaselineSettings, arguments).baseline)
    if not paths:
        parser.error("no run file is given")
    measures = parse_measures(settings.measures)
    names = [str(measure) for measure in measures]
    source = settings.qrels or ""
    qrels, runs = load_qrels(source), read_runs(paths)
    evaluations = evaluate_runs(qrels, runs, measures, complete=settings.complete)
    check_judged(paths, evaluations, source)
    comparison = None if baseline is None else compare(evaluations, list(evaluations)[baseline], names, procedure)
    text = render(settings.format, evaluations, names, comparison, settings.per_query)
    if settings.output:
        _write(settings.output, text)
    else:
        console.show(text, end="")
    for line in topic_messages(evaluations, comparison, settings.complete):
        console.notice(line)
    if report.html:
        texts = load_topics(report.topics) if report.topics else {}
        curves = evaluate_runs(qrels, runs, parse_measures(RECALL_LEVELS), complete=settings.complete)
        _write(report.html, page(evaluations, comparison, curves, texts=texts, qrels=source))


def _write(path: str, text: str) -> None:
    with write_file(path) as stream:
        stream.write(text)
    console.notice(f"{path}: written")


if __name__ == "__main__":
    console.run(main)
