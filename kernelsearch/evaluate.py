"""`python -m kernelsearch.evaluate`: what runs are worth, by judgements, and whether they differ from a baseline."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from kernelsearch.api.report import page
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import write_file
from kernelsearch.core.options import Settings, option
from kernelsearch.evaluation.comparison import Comparison, Procedure, compare
from kernelsearch.evaluation.measures import DEFAULT, Evaluation, Qrels, Run, evaluate, parse_measures, run_labels
from kernelsearch.evaluation.tables import render
from kernelsearch.trec import read_run


@dataclass(frozen=True, kw_only=True)
class EvaluateSettings(Settings):
    """What is measured, and how it is printed."""

    qrels: str | None = option(None, "judgements: a TREC or BEIR file, or irds:NAME")
    measures: tuple[str, ...] = option(DEFAULT, "measures, by ir_measures' or trec_eval's names")
    per_query: bool = option(False, "a line for every topic, too")
    complete: bool = option(True, "count judged topics that a run lacks as zero, as trec_eval -c does")
    format: str = option("text", "how results are printed", choices=("text", "markdown", "latex", "csv", "json"))
    output: str | None = option(None, "write them to this file instead")


@dataclass(frozen=True, kw_only=True)
class ComparisonSettings(Settings):
    """How runs are compared with a baseline."""

    baseline: str | None = option(None, "compare the runs with this one")
    test: str = option("t", "paired test over topics", choices=("t", "wilcoxon", "randomisation", "none"))
    correction: str = option("holm", "for the tests of all runs by one measure", choices=("holm", "bonferroni", "none"))
    level: float = option(0.05, "p-values below it are marked", low=0, high=1)
    confidence: float = option(0.95, "of the bootstrap intervals", low=0.5, high=0.9999)
    rounds: int = option(10000, "of the bootstrap and the randomisation test", low=100)
    seed: int = option(0, "of both", low=0)
    risk_alpha: float = option(1.0, "URisk, TRisk, GeoRisk: losses count 1 + alpha times", low=0)


@dataclass(frozen=True, kw_only=True)
class ReportSettings(Settings):
    """The HTML page."""

    html: str | None = option(
        None, "write a page with tables and plots to this file; its plots need --baseline to compare with"
    )
    topics: str | None = option(None, "topics, to show their texts on the page: a file or irds:NAME")


@dataclass(frozen=True, kw_only=True)
class AllSettings(ReportSettings, ComparisonSettings, EvaluateSettings):
    """Options of evaluate."""


EXAMPLES = """examples:
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt runs/klsa.txt --measures AP,nDCG@10,P@5 --per-query
  python -m kernelsearch.evaluate --qrels qrels.txt --baseline runs/bm25.txt runs/*.txt --test randomisation --format markdown
  python -m kernelsearch.evaluate --qrels qrels.txt --baseline runs/bm25.txt runs/klsa.txt --topics topics.tsv --html p.html"""


def main(argv: list[str]) -> None:
    parser = console.Parser(prog="python -m kernelsearch.evaluate", description="Evaluates run files.", epilog=EXAMPLES)
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run files")
    add_flags(parser, EvaluateSettings.options)
    add_flags(parser, ComparisonSettings.options, title="comparing")
    add_flags(parser, ReportSettings.options, title="a page")
    arguments = parser.parse_args(argv)
    settings = read_flags(AllSettings, arguments)
    if settings.qrels is None:
        parser.error("--qrels is not given")
    paths, baseline = with_baseline(arguments.runs, settings.baseline)
    if not paths:
        parser.error("no run file is given")
    measures = parse_measures(settings.measures)
    names = [str(measure) for measure in measures]
    qrels = load_qrels(settings.qrels)
    runs = {label: read_run(path) for path, label in zip(paths, run_labels(paths), strict=True)}
    found = {label: evaluate(qrels, run, measures, complete=settings.complete) for label, run in runs.items()}
    for path, one in zip(paths, found.values(), strict=True):
        if len(one.missing) == len(qrels):
            raise InputError(f"{path}: none of its topics is judged in {settings.qrels}")
    comparison = compare(found, list(found)[baseline], names, procedure(settings)) if baseline is not None else None
    text = render(settings.format, found, names, comparison, settings.per_query)
    if settings.output:
        with write_file(settings.output) as stream:
            stream.write(text)
        console.notice(f"{settings.output}: written")
    else:
        print(text, end="")
    for line in notices(found, comparison, settings.complete):
        console.notice(line)
    if settings.html:
        write_page(settings, qrels, runs, found, comparison)


def with_baseline(paths: list[str], baseline: str | None) -> tuple[list[str], int | None]:
    """The runs and the baseline's place among them; a baseline that isn't among them comes first."""
    if baseline is None:
        return paths, None
    for place, path in enumerate(paths):
        if os.path.abspath(path) == os.path.abspath(baseline):
            return paths, place
    return [baseline, *paths], 0


def procedure(settings: ComparisonSettings) -> Procedure:
    """How to compare, from the flags."""
    return Procedure(
        test=settings.test,
        correction=settings.correction,
        level=settings.level,
        confidence=settings.confidence,
        rounds=settings.rounds,
        seed=settings.seed,
        aversion=settings.risk_alpha,
    )


def notices(found: dict[str, Evaluation], comparison: Comparison | None, complete: bool) -> list[str]:
    """What must be said about topics that didn't count."""
    said = []
    for label, one in found.items():
        if one.missing:
            how = "count as zero (--no-complete leaves them out)" if complete else "are left out"
            said.append(f"{label}: {len(one.missing)} judged topics are not in the run and {how}")
        if one.unjudged:
            said.append(f"{label}: {len(one.unjudged)} topics of the run have no judgements and are left out")
    for label, topics in comparison.topics.items() if comparison else ():
        ours, base = len(found[label].topics), len(found[comparison.baseline].topics) if comparison else 0
        if len(topics) < max(ours, base):
            said.append(f"{label}: compared on the {len(topics)} topics that it shares with the baseline")
    return said


def write_page(
    settings: AllSettings,
    qrels: Qrels,
    runs: Mapping[str, Run],
    found: dict[str, Evaluation],
    comparison: Comparison | None,
) -> None:
    """The report as one HTML file."""
    texts = load_topics(settings.topics) if settings.topics else {}
    curves = {
        label: evaluate(qrels, run, parse_measures(RECALL_LEVELS), complete=settings.complete) for label, run in runs.items()
    }
    html = page(found, comparison, curves, texts=texts, qrels=str(settings.qrels))
    assert settings.html is not None
    with write_file(settings.html) as stream:
        stream.write(html)
    console.notice(f"{settings.html}: written")


#: trec_eval's eleven points of the precision-recall curve.
RECALL_LEVELS = tuple(f"IPrec@{level / 10:.1f}" for level in range(11))


if __name__ == "__main__":
    console.run(main)
