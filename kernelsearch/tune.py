"""`python -m kernelsearch.tune`: finds good settings by k-fold cross-validation over topics."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.tune import Tuned, identity, settings_to_try, tune
from kernelsearch.cli import config, console
from kernelsearch.cli.flags import read_flags
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.cli.pipelines import PipelineSettings, make_parser, parse, read_pipeline
from kernelsearch.core.errors import InputError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.tables import text_table
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.evaluation.significance import bootstrap_interval, paired_t
from kernelsearch.rerankers import registry
from kernelsearch.tuning import space
from kernelsearch.tuning.journal import Journal
from kernelsearch.tuning.trials import Plan


@dataclass(frozen=True, kw_only=True)
class TuneSettings(Settings):
    """Options of tune."""

    config: str | None = option(None, "a TOML file with the pipeline to start from, as search takes; flags override it")
    index: str | tuple[str, ...] | None = option(
        None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True
    )
    topics: str | None = option(None, "topics: a file or irds:NAME")
    topics_format: str | None = option(None, "how to read it; guessed if not given", choices=("tsv", "trec", "jsonl", "cacm"))
    topics_field: str = option("title", "parts of a TREC topic: title, description, narrative, joined with +")
    qrels: str | None = option(None, "judgements: a file or irds:NAME")
    measure: str = option("AP", "what to make as large as possible, by ir_measures' or trec_eval's name")
    samples: int | None = option(None, "try this many random settings instead of the whole grid", low=1)
    folds: int = option(5, "folds of topics", low=2)
    seed: int = option(0, "of the folds and the random settings", low=0)
    processes: int = option(os.cpu_count() or 1, "processes to work in", low=1)
    output: str | None = option(None, "the config file to write the best settings to")
    results: str | None = option(None, "the file that keeps results, to go on after a kill; default: OUTPUT.results.jsonl")
    language: str | None = option(None, "analyse queries in this language; default: the index's own")
    java_heap: str | None = option(None, "Java's heap, such as 4g")


EXAMPLES = """--try NAME=VALUES says what to try, and may be repeated: k1=0.9,1.2 for the first stage, klsa.z=1,5 for a method,
b=0.1..0.9 or mu=log:100..5000 for a range to draw from with --samples; values that are lists are told apart by |. Parameters
of train, such as klsa.kernel or mslm.window, are fitted once a combination, into OUTPUT.fitted/.

examples:
  python -m kernelsearch.tune --index indexes/cran --topics topics.tsv --qrels qrels.txt --rerank klsa \\
      --try klsa.z=1,5,10 --try klsa.lambda=0.5,0.7,0.9 --output tuned.toml
  python -m kernelsearch.tune --index indexes/cran --topics topics.tsv --qrels qrels.txt --samples 100 \\
      --try k1=0.4..2.5 --try b=0.1..0.9 --output bm25.toml
  python -m kernelsearch.search --config tuned.toml --topics topics.tsv --output runs/tuned.txt"""

#: What a config file may say here besides the pipeline.
TAKEN = ("index", "topics", "topics_format", "topics_field", "language", "java_heap")


def main(argv: list[str]) -> None:
    """Parses the flags, tries the settings, prints the outcome and writes the best setting."""
    parser = make_parser("tune", "Finds good settings by cross-validation over topics.", EXAMPLES, TuneSettings)
    parser.add_argument(
        "--try", dest="tried", action="append", default=[], metavar="NAME=VALUES", help="what to try (see below)"
    )
    arguments, _ = parse(parser, argv, TAKEN)
    settings = read_flags(TuneSettings, arguments)
    for name in ("index", "topics", "qrels", "output"):
        if getattr(settings, name) is None:
            parser.error(f"--{name} is not given")
    if not arguments.tried:
        parser.error("--try: nothing to try is given, such as --try klsa.z=1,5,10")
    assert settings.index is not None
    chosen = read_pipeline(arguments)
    index = Index(settings.index, language=settings.language, java_heap=settings.java_heap, progress=console.progress)
    plan, texts, pipeline = _make_plan(settings, chosen, index)
    tried = settings_to_try(arguments.tried, plan.names, settings.samples, settings.seed)
    queries = index.lucene.queries([texts[qid] for qid in plan.qids], plan.qids)
    results = settings.results or f"{settings.output}.results.jsonl"
    with Journal(results, identity(plan, queries, config.made_with(pipeline, {})), plan.qids) as journal:
        if journal.values:
            console.notice(f"{journal.path}: {len(journal.values)} settings are known already")
        tuned = tune(
            pipeline,
            plan,
            texts,
            tried,
            journal=journal,
            fitted=Path(f"{settings.output}.fitted"),
            folds=settings.folds,
            seed=settings.seed,
            processes=settings.processes,
            progress=console.progress,
        )
    _show(tuned)
    _write_best(settings, tuned, pipeline)


def _make_plan(settings: TuneSettings, chosen: PipelineSettings, index: Index) -> tuple[Plan, dict[str, str], Pipeline]:
    """What all settings share, the texts of the topics, and the pipeline as given."""
    measures = parse_measures([settings.measure])
    if len(measures) != 1:
        raise InputError(f"--measure: {settings.measure!r} stands for {len(measures)} measures; give one")
    pipeline = chosen.open(index)
    assert settings.topics is not None and settings.qrels is not None
    topics = load_topics(settings.topics, settings.topics_format, settings.topics_field)
    qrels = load_qrels(settings.qrels)
    # Sorted, so that folds don't depend on the file's order.
    qids = sorted(qid for qid in topics if qid in qrels)
    if not qids:
        raise InputError(f"{settings.topics}: none of its topics is judged in {settings.qrels}")
    lost = sum(qid not in qrels for qid in topics), sum(qid not in topics for qid in qrels)
    if any(lost):
        console.notice(
            f"left out: {lost[0]} topics without judgements, {lost[1]} judged topics that are not in {settings.topics}"
        )
    plan = Plan(
        measure=str(measures[0]),
        first=chosen.first.to_dict(),
        methods=pipeline.methods,
        qrels={qid: dict(qrels[qid]) for qid in qids},
        qids=qids,
    )
    return plan, topics, pipeline


def _show(tuned: Tuned) -> None:
    """Prints what each fold chose, and what tuning is worth on topics that it didn't see."""
    choice, measure = tuned.choice, tuned.plan.measure
    rows = [
        (
            number,
            len(fold.topics),
            f"{fold.training_mean:.4f}",
            f"{fold.held_out_mean:.4f}",
            space.label(tuned.tried[fold.chosen]),
        )
        for number, fold in enumerate(choice.folds, 1)
    ]
    print(text_table(("fold", "topics", "training", "held out", "chosen"), rows, align=">>>><"), end="\n\n")
    lines = [("first stage, as given", f"{tuned.first_stage.mean():.4f}")] if tuned.plan.methods else []
    lines += [("pipeline, as given", f"{tuned.given.mean():.4f}"), ("tuned, held out", f"{choice.held_out.mean():.4f}")]
    print(text_table((measure, "mean"), lines))
    gains = choice.held_out - tuned.given
    low, high = bootstrap_interval(gains)
    print(
        f"tuned against given: {gains.mean():+.4f}, 95% interval [{low:+.4f}, {high:+.4f}], "
        f"paired t test p = {paired_t(gains):.4f}\n"
        f"best of {len(tuned.tried)} settings: {space.label(tuned.best)}"
    )
    console.notice(
        f"(its mean over the topics that it was chosen on is {choice.best_mean:.4f}, which is too good to be reported)"
    )


def _write_best(settings: TuneSettings, tuned: Tuned, pipeline: Pipeline) -> None:
    """Writes the best setting as a config for search."""
    assert settings.output is not None
    plan, choice = tuned.plan, tuned.choice
    methods = [(name, registry.method(name).settings.of(given).to_dict()) for name, given in plan.method_settings(tuned.best)]
    comment = (
        f"Best of {len(tuned.tried)} settings by {plan.measure} over {len(plan.qids)} topics: {space.label(tuned.best)}\n"
        f"Held-out {plan.measure} by {len(choice.folds)}-fold cross-validation, seed {settings.seed}: "
        f"{choice.held_out.mean():.4f}"
    )
    verb = {"index": settings.index, "language": settings.language}
    first = plan.first_settings(tuned.best).to_dict()
    config.write(settings.output, verb, first, methods, config.made_with(pipeline, {}), comment)
    console.notice(f"{settings.output}: written; python -m kernelsearch.search --config {settings.output} takes it")


if __name__ == "__main__":
    console.run(main)
