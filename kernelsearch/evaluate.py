"""`python -m kernelsearch.evaluate`, `kernelsearch.evaluate()`: measures by relevance judgements, compared with a baseline."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kernelsearch.api import keywords
from kernelsearch.api.evaluating import Measured
from kernelsearch.api.index import Index
from kernelsearch.api.judged import Judgements, Topics
from kernelsearch.api.report import page
from kernelsearch.cli import console
from kernelsearch.cli.evaluate_settings import BaselineSettings, EvaluateSettings, ReportSettings, check_all_pairs
from kernelsearch.cli.flags import add_flags, read_flags, require
from kernelsearch.cli.inputs import load_qrels, load_topics, qrels_from, topics_from
from kernelsearch.cli.verbs import CallableModule
from kernelsearch.core.files import check_output, write_file
from kernelsearch.evaluation.comparative import split_comparative
from kernelsearch.evaluation.comparison import Procedure
from kernelsearch.evaluation.measures import DEFAULT, need_subtopics, parse_measures
from kernelsearch.evaluation.run_files import add_baseline, report_on_runs
from kernelsearch.lucene.shards import Source

EXAMPLES = """examples:
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt
  python -m kernelsearch.evaluate --qrels qrels.txt runs/bm25.txt runs/klsa.txt --measures AP,nDCG@10,P@5 --per-query
  python -m kernelsearch.evaluate --qrels qrels.txt --baseline runs/bm25.txt runs/*.txt --test randomisation --format markdown
  python -m kernelsearch.evaluate --qrels qrels.txt --baseline runs/bm25.txt runs/klsa.txt --topics topics.tsv --html p.html"""


def evaluate(
    index: Index | Source,
    topics: Topics,
    qrels: Judgements,
    methods: Mapping[str, keywords.Rerank] | Sequence[str | None] = (None, "auto"),
    *,
    measures: Sequence[str] = DEFAULT,
    **options: Any,
) -> Measured:
    """Measures methods on judged topics and compares them with the first one: `Index.evaluate`.

    `index` is an opened index, or what `kernelsearch.open` takes; `topics` and `qrels` may also be irds:NAME. The other
    parameters are those of `Index.evaluate`. The command of this name measures run files.
    """
    opened = index if isinstance(index, Index) else Index(index)
    judged = qrels_from(qrels, by_subtopic=need_subtopics(parse_measures(measures)))
    return opened.evaluate(topics_from(topics), judged, methods, measures=measures, **options)


def main(argv: list[str]) -> None:
    """Parses the flags, evaluates and compares the runs, and prints or writes the results."""
    parser = console.Parser(
        prog="python -m kernelsearch.evaluate",
        description="Evaluates run files by relevance judgements and compares them.",
        epilog=EXAMPLES,
    )
    parser.add_argument("runs", nargs="*", metavar="RUN", help="run files")
    add_flags(parser, EvaluateSettings.options)
    add_flags(parser, (*BaselineSettings.options, *Procedure.options), title="comparison with a baseline")
    add_flags(parser, ReportSettings.options, title="HTML page")
    arguments = parser.parse_args(argv)
    settings, report = read_flags(EvaluateSettings, arguments), read_flags(ReportSettings, arguments)
    procedure = read_flags(Procedure, arguments)
    require(parser, settings, "qrels")
    against = read_flags(BaselineSettings, arguments)
    paths, baseline = add_baseline(arguments.runs, against.baseline)
    if not paths:
        parser.error("no run file is given")
    for flag, output in (("--output", settings.output), ("--html", report.html)):
        check_output(flag, output, (*paths, settings.qrels, report.topics))
    if procedure.all_judged and not settings.complete:
        parser.error("--all-judged: counts the topics that --no-complete leaves out; use one of them")
    if against.all_pairs:
        check_all_pairs(parser, len(paths), settings.format, procedure)
    measures, r_losses = split_comparative(settings.measures)
    if r_losses and baseline is None:
        parser.error(f"--measures: {r_losses[0]} is a comparison; name the run to compare with by --baseline")
    source = settings.qrels or ""
    texts = load_topics(report.topics) if report.topics else {}
    parsed = parse_measures(measures or (["AP"] if r_losses else []))
    results = report_on_runs(
        paths,
        load_qrels(source, by_subtopic=need_subtopics(parsed)),
        parsed,
        source=source,
        baseline=baseline,
        losses=r_losses,
        all_pairs=against.all_pairs,
        procedure=procedure,
        complete=settings.complete,
    )
    text = results.render(settings.format, settings.per_query)
    if settings.output:
        _write(settings.output, text)
    else:
        console.show(text, end="")
    for line in results.messages():
        console.notice(line)
    if report.html:
        _write(report.html, page(results.evaluations, results.comparison, results.curves(), texts=texts, qrels=source))


def _write(path: str, text: str) -> None:
    with write_file(path) as stream:
        stream.write(text)
    console.notice(f"{path}: written")


sys.modules[__name__].__class__ = CallableModule

if __name__ == "__main__":
    console.run(main)
