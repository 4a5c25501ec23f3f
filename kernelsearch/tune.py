"""`python -m kernelsearch.tune`: finds good settings by k-fold cross-validation over topics."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.api.pipeline import FIRST_STAGE, FirstStage, Pipeline, chunks
from kernelsearch.cli import config, console
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.errors import InputError, KernelSearchError
from kernelsearch.core.options import Option, collect, resolve
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.evaluation.significance import bootstrap_interval, paired_t
from kernelsearch.search import make_parser, make_pipeline, parse
from kernelsearch.tuning import space
from kernelsearch.tuning.fitting import fit_missing
from kernelsearch.tuning.folds import Choice, assign_folds, choose
from kernelsearch.tuning.journal import Journal
from kernelsearch.tuning.space import Setting
from kernelsearch.tuning.trials import Plan, Trials, prepare, stage_key, start_worker, stop_workers, try_settings

OPTIONS = (
    Option("config", str, None, "a TOML file with the pipeline to start from, as search takes; flags override it"),
    Option("index", str, None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True),
    Option("topics", str, None, "topics: a file or irds:NAME"),
    Option("topics-format", str, None, "how to read it; guessed if not given", choices=("tsv", "trec", "jsonl", "cacm")),
    Option("topics-field", str, "title", "parts of a TREC topic: title, description, narrative, joined with +"),
    Option("qrels", str, None, "judgements: a file or irds:NAME"),
    Option("measure", str, "AP", "what to make as large as possible, by ir_measures' or trec_eval's name"),
    Option("samples", int, None, "try this many random settings instead of the whole grid", low=1),
    Option("folds", int, 5, "folds of topics", low=2),
    Option("seed", int, 0, "of the folds and the random settings", low=0),
    Option("processes", int, os.cpu_count() or 1, "processes to work in", low=1),
    Option("output", str, None, "the config file to write the best settings to"),
    Option("results", str, None, "the file that keeps results, to go on after a kill; default: OUTPUT.results.jsonl"),
    Option("language", str, None, "analyse queries in this language; default: the index's own"),
    Option("java-heap", str, None, "Java's heap, such as 4g"),
)

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

#: Settings a task: results are kept task by task, and a method can share work within one.
TASK = 10


def main(argv: list[str]) -> None:
    parser = make_parser("tune", "Finds good settings by cross-validation over topics.", EXAMPLES, OPTIONS)
    parser.add_argument(
        "--try", dest="tried", action="append", default=[], metavar="NAME=VALUES", help="what to try (see below)"
    )
    arguments, _ = parse(parser, argv, TAKEN)
    settings = resolve(OPTIONS, collect(arguments, OPTIONS))
    for name in ("index", "topics", "qrels", "output"):
        if settings[name] is None:
            parser.error(f"--{name} is not given")
    if not arguments.tried:
        parser.error("--try: nothing to try is given, such as --try klsa.z=1,5,10")
    if settings["java_heap"]:
        from kernelsearch.lucene import jvm

        jvm.configure(heap=settings["java_heap"])
    plan, queries, pipeline = make_plan(arguments, settings)
    tried = settings_to_try(arguments.tried, plan.names, settings)
    with Journal(
        settings["results"] or f"{settings['output']}.results.jsonl", identity(plan, queries, pipeline), plan.qids
    ) as journal:
        if journal.values:
            console.notice(f"{journal.path}: {len(journal.values)} settings are known already")
        plan = fit_missing(plan, pipeline.index, tried, Path(f"{settings['output']}.fitted"))
        first_stage = run_trials(plan, queries, tried, journal, settings["processes"])
        values = np.array([journal.values[space.key(setting)] for setting in tried])
    # The pipeline as given (the first row) is for comparison; the choice is among what was asked for.
    choice = choose(values[1:], assign_folds(len(plan.qids), settings["folds"], settings["seed"]))
    show(plan, tried[1:], choice, values[0], first_stage)
    write_best(settings, plan, pipeline, tried[1:][choice.best], choice, len(tried) - 1)


def make_plan(arguments: Any, settings: dict[str, Any]) -> tuple[Plan, list[Any], Pipeline]:
    """What all settings share, the analysed queries of judged topics, and the pipeline as given."""
    measure = parse_measures([settings["measure"]])
    if len(measure) != 1:
        raise InputError(f"--measure: {settings['measure']!r} stands for {len(measure)} measures; give one")
    pipeline = make_pipeline(arguments, settings)
    topics = load_topics(settings["topics"], settings["topics_format"], settings["topics_field"])
    qrels = load_qrels(settings["qrels"])
    # Sorted, so that folds don't depend on the file's order.
    qids = sorted(qid for qid in topics if qid in qrels)
    if not qids:
        raise InputError(f"{settings['topics']}: none of its topics is judged in {settings['qrels']}")
    lost = sum(qid not in qrels for qid in topics), sum(qid not in topics for qid in qrels)
    if any(lost):
        console.notice(
            f"left out: {lost[0]} topics without judgements, {lost[1]} judged topics that are not in {settings['topics']}"
        )
    queries = pipeline.index.lucene.queries([topics[qid] for qid in qids], qids)
    plan = Plan(
        index=settings["index"],
        language=settings["language"],
        measure=str(measure[0]),
        first=collect(arguments, FIRST_STAGE),
        methods=[(one.name, dict(one.settings)) for one in pipeline.rerankers],
        qrels={qid: dict(qrels[qid]) for qid in qids},
        qids=qids,
    )
    return plan, queries, pipeline


def settings_to_try(texts: Sequence[str], methods: Sequence[str], settings: dict[str, Any]) -> list[Setting]:
    """The pipeline as given (an empty setting), then the grid or the draws."""
    dimensions = [space.parse_dimension(text, methods) for text in texts]
    names = [one.name for one in dimensions]
    if len(set(names)) < len(names):
        raise InputError(f"--try {next(name for name in names if names.count(name) > 1)}: given twice")
    if settings["samples"]:
        return [{}, *space.draws(dimensions, settings["samples"], settings["seed"])]
    return [{}, *space.grid(dimensions)]


def identity(plan: Plan, queries: Sequence[Any], pipeline: Pipeline) -> str:
    """A hash of everything that a setting's values depend on."""
    everything = {
        "plan": {**asdict(plan), "index": "", "fitted": {}},
        "queries": [asdict(query) for query in queries],
        "with": config.made_with(pipeline, {}),
    }
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def run_trials(plan: Plan, queries: Sequence[Any], tried: Sequence[Setting], journal: Journal, processes: int) -> np.ndarray:
    """Brings the journal up to all settings; returns the first stage's own values, as given (topics,)."""
    missing = [setting for setting in tried if space.key(setting) not in journal.values]
    groups: dict[str, list[Setting]] = {}
    stages: dict[str, FirstStage] = {stage_key(plan, {}): plan.stage({})}
    for setting in missing:
        groups.setdefault(stage_key(plan, setting), []).append(setting)
        stages.setdefault(stage_key(plan, setting), plan.stage(setting))
    tasks = [list(part) for group in groups.values() for part in chunks(group, TASK)]
    with tempfile.TemporaryDirectory(prefix="kernelsearch-tune-") as folder:
        prepare(Path(folder), plan, queries, list(stages.values()), processes)
        trials = Trials(Path(folder))
        first = trials.judged.values(trials.measure, range(len(plan.qids)), trials.lists(plan.stage({})))
        with console.progress(total=len(tried), label="tuning", unit="setting") as bar:
            bar.update(len(tried) - len(missing))
            for task, values in _results(trials, tasks, processes):
                for setting, row in zip(task, values, strict=True):
                    journal.add(setting, row)
                bar.update(len(task))
    return first


def _results(trials: Trials, tasks: list[list[Setting]], processes: int) -> Iterator[tuple[list[Setting], np.ndarray]]:
    """(task, values) as they come, from this process or from several."""
    if processes == 1 or len(tasks) < 2:
        for task in tasks:
            yield task, trials.values(task)
        return
    with _workers(trials.folder, min(processes, len(tasks))) as pool:
        waiting = {pool.submit(try_settings, task): task for task in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BrokenProcessPool:
            raise KernelSearchError(
                "a process of --processes died (out of memory?); the same command goes on from here"
            ) from None
        except BaseException:
            stop_workers(trials.folder)
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _workers(folder: Path, count: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes (a forked JVM can't work), one BLAS thread each: they share the cores already."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(count, context, start_worker, (str(folder), os.getpid())) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def show(plan: Plan, tried: Sequence[Setting], choice: Choice, given: np.ndarray, first: np.ndarray) -> None:
    """Prints what each fold chose, and what tuning is worth on topics that it didn't see."""
    rows = [
        (number, len(fold.topics), f"{fold.training_mean:.4f}", f"{fold.held_out_mean:.4f}", space.label(tried[fold.chosen]))
        for number, fold in enumerate(choice.folds, 1)
    ]
    print(console.table(("fold", "topics", "training", "held out", "chosen"), rows, align=">>>><"), end="\n\n")
    lines = [("first stage, as given", f"{first.mean():.4f}")] if plan.methods else []
    lines += [("pipeline, as given", f"{given.mean():.4f}"), ("tuned, held out", f"{choice.held_out.mean():.4f}")]
    print(console.table((plan.measure, "mean"), lines))
    gains = choice.held_out - given
    low, high = bootstrap_interval(gains)
    print(
        f"tuned against given: {gains.mean():+.4f}, 95% interval [{low:+.4f}, {high:+.4f}], "
        f"paired t test p = {paired_t(gains):.4f}\n"
        f"best of {len(tried)} settings: {space.label(tried[choice.best])}"
    )
    console.notice(
        f"(its mean over the topics that it was chosen on is {choice.best_mean:.4f}, which is too good to be reported)"
    )


def write_best(settings: dict[str, Any], plan: Plan, pipeline: Pipeline, best: Setting, choice: Choice, count: int) -> None:
    """Writes the best setting as a config for search."""
    options = [(name, resolve(_options(pipeline, name), given)) for name, given in plan.method_settings(best)]
    comment = (
        f"Best of {count} settings by {plan.measure} over {len(plan.qids)} topics: {space.label(best)}\n"
        f"Held-out {plan.measure} by {len(choice.folds)}-fold cross-validation, seed {settings['seed']}: "
        f"{choice.held_out.mean():.4f}"
    )
    verb = {"index": plan.index, "language": settings["language"]}
    config.write(settings["output"], verb, plan.first_settings(best), options, config.made_with(pipeline, {}), comment)
    console.notice(f"{settings['output']}: written; python -m kernelsearch.search --config {settings['output']} takes it")


def _options(pipeline: Pipeline, name: str) -> tuple[Option, ...]:
    return next(one.options for one in pipeline.rerankers if one.name == name)


if __name__ == "__main__":
    console.run(main)
