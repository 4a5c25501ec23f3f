"""Tuning as the verb does it: the plan from options and files, and the best settings as a config file."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.api.index import Index
from kernelsearch.api.judged import Judgements, Topics
from kernelsearch.api.pipeline import Methods, Pipeline, PipelineSettings
from kernelsearch.api.tune import Tuned, identity, settings_to_try, tune
from kernelsearch.cli import config
from kernelsearch.cli.flags import SINGLE_QUERY, open_index
from kernelsearch.cli.inputs import load_qrels, load_topics, qrels_from, topics_from
from kernelsearch.cli.settings import TOPIC_FORMATS, QuerySettings
from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.options import option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.tuning import space
from kernelsearch.tuning.journal import Journal
from kernelsearch.tuning.space import default_grid
from kernelsearch.tuning.trials import Plan
from kernelsearch.vectors.settings import VectorSettings

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TuneSettings(QuerySettings):
    """Options of tune."""

    config: str | None = option(None, "TOML file with the pipeline to start from, as search takes; flags override it")
    topics: str | None = option(None, "topics to tune on: a file or irds:NAME")
    topics_format: str | None = option(None, "format of the topics; guessed if not given", choices=TOPIC_FORMATS)
    topics_field: str = option("title", "parts of a TREC topic to search with: title, description, narrative, joined with +")
    qrels: str | None = option(None, "relevance judgements of the topics: a file or irds:NAME")
    measure: str = option("AP", "measure to maximise, by its name in ir_measures or trec_eval")
    samples: int | None = option(None, "number of random settings to try instead of the whole grid", low=1)
    folds: int = option(5, "folds of topics for cross-validation", low=2)
    seed: int = option(0, "seed for the folds and the random settings", low=0)
    processes: int = option(os.cpu_count() or 1, "number of processes that try settings", low=1)
    output: str | None = option(None, "config file to write the best settings to; default: tuned-METHOD.toml")
    results: str | None = option(None, "file of results, from which a killed command continues; default: OUTPUT.results.jsonl")


def tune_pipeline(
    settings: TuneSettings, chosen: PipelineSettings, dimensions: list[str], *, progress: Progress = silent
) -> tuple[Tuned, Pipeline]:
    """Tries settings of a pipeline on judged topics and chooses among them by cross-validation.

    `settings` are the options of tune, `chosen` is the pipeline to start from, `dimensions` are the values of `--try`
    (NAME=VALUES), long steps report to `progress`. Results are kept in a file, from which a killed command continues. Returns
    the outcome and the pipeline before tuning.
    """
    pipeline = chosen.open(open_index(settings, progress, language=settings.language))
    assert settings.topics is not None and settings.qrels is not None
    topics = load_topics(settings.topics, settings.topics_format, settings.topics_field)
    qrels = load_qrels(settings.qrels)
    return tune_on_topics(settings, chosen, pipeline, topics, qrels, dimensions, progress=progress), pipeline


def tune_on_topics(
    settings: TuneSettings,
    chosen: PipelineSettings,
    pipeline: Pipeline,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    dimensions: Sequence[str],
    *,
    progress: Progress = silent,
) -> Tuned:
    """As `tune_pipeline`, with an opened `pipeline`, `topics` {qid: text} and `qrels` {qid: {docid: grade}}.

    The other parameters are those of `tune_pipeline`.
    """
    plan = _make_plan(settings, chosen, pipeline, topics, qrels)
    tried = settings_to_try(dimensions, plan.names, settings.samples, settings.seed)
    queries = pipeline.index.lucene.queries([topics[qid] for qid in plan.qids], plan.qids)
    results = settings.results or f"{settings.output}.results.jsonl"
    made_with, vectors = config.made_with(pipeline, {}), pipeline.index.vector_settings
    if vectors != VectorSettings():
        made_with |= {"vectors": vectors.to_dict()}
    with Journal(results, identity(plan, queries, made_with), plan.qids) as journal:
        if journal.values:
            logger.info("%s: %d settings are known already", journal.path, len(journal.values))
        return tune(
            pipeline,
            plan,
            topics,
            tried,
            journal=journal,
            fitted=Path(f"{settings.output}.fitted"),
            folds=settings.folds,
            seed=settings.seed,
            processes=settings.processes,
            progress=progress,
        )


def tune_with_keywords(
    index: Index,
    topics: Topics,
    qrels: Judgements,
    chosen: tuple[Methods, FirstStageSettings],
    tried: Mapping[str, Any] | None,
    choices: Mapping[str, Any],
    output: str | Path | None,
) -> Tuned:
    """Tunes with the keywords of a call in Python.

    Parameters
    ----------
    index : the opened index
    topics, qrels : what `topics_from` and `qrels_from` take
    chosen : the methods and the first stage to start from
    tried : {parameter: values}, see `space.dimension_text`; None: a small grid of the method
    choices : options of tune, by Python name
    output : config file for the best setting; None: nothing is kept

    Raises OptionError for parameters of training without `output`, since what is fitted for them is kept beside it.
    """
    methods, first = chosen
    names = [name for name, _ in methods]
    texts = [space.dimension_text(name, values, names) for name, values in tried.items()] if tried else default_grid(names)
    parts = space.split({text.partition("=")[0]: None for text in texts}, names)[1] if names else {}
    fitted = [f"{name}_{key}" for name, part in parts.items() for key in space.fit_part(name, part)]
    if fitted and output is None:
        raise OptionError(f"output: not given; what is fitted for each value of {', '.join(fitted)} is kept beside it")
    start = PipelineSettings(first, methods)
    with tempfile.TemporaryDirectory(prefix="kernelsearch-tune-") as scratch:
        settings = TuneSettings.of(
            {
                "index": tuple(map(str, index.shards.folders)),
                "topics": topics if isinstance(topics, str) else None,
                "qrels": qrels if isinstance(qrels, str) else None,
                "language": index.language,
                **{f"vectors_{name}": value for name, value in index.vector_settings.to_dict().items()},
                **choices,
                "output": str(output or Path(scratch) / "tuned.toml"),
            }
        )
        pipeline = start.open(index)
        tuned = tune_on_topics(settings, start, pipeline, topics_from(topics), qrels_from(qrels), texts)
        if output is not None:
            write_best(settings, tuned, pipeline)
    return tuned


def _make_plan(
    settings: TuneSettings,
    chosen: PipelineSettings,
    pipeline: Pipeline,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
) -> Plan:
    """What all settings share."""
    measures = parse_measures([settings.measure], Flag("measure"))
    if len(measures) != 1:
        raise InputError(f"--measure: {settings.measure!r} names {len(measures)} measures; give one")
    # Sorted, so that folds don't depend on the order of the file.
    qids = sorted(qid for qid in topics if qid in qrels)
    name = settings.topics or "topics"
    if not qids:
        raise InputError(f"{name}: none of its topics is judged in {settings.qrels or 'qrels'}")
    unjudged, missing = sum(qid not in qrels for qid in topics), sum(qid not in topics for qid in qrels)
    if unjudged or missing:
        logger.info("left out: %d topics without judgements, %d judged topics that are not in %s", unjudged, missing, name)
    return Plan(
        measure=str(measures[0]),
        first=chosen.first.to_dict(),
        methods=pipeline.methods,
        qrels={qid: dict(qrels[qid]) for qid in qids},
        qids=qids,
    )


def write_best(settings: TuneSettings, tuned: Tuned, pipeline: Pipeline) -> None:
    """Writes the best setting of `tuned`, of `pipeline`, to `--output` of `settings`, as a config file for search."""
    assert settings.output is not None
    plan, choice = tuned.plan, tuned.choice
    methods = [
        (name, registry.method(name).settings.of(options).to_dict()) for name, options in plan.method_settings(tuned.best)
    ]
    comment = (
        f"Best of {len(tuned.tried)} settings by {plan.measure} over {len(plan.qids)} topics: {space.label(tuned.best)}\n"
        f"Held-out {plan.measure} by {len(choice.folds)}-fold cross-validation, seed {settings.seed}: "
        f"{choice.held_out.mean():.4f}"
    )
    verb = {key: value for key, value in settings.to_dict().items() if key in SINGLE_QUERY and key != "java_heap"}
    first = plan.first_settings(tuned.best).to_dict()
    config.write(settings.output, verb, first, methods, config.made_with(pipeline, {}), comment)
