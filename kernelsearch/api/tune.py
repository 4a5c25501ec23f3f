"""Tuning of a pipeline on judged topics, with cross-validation."""

from __future__ import annotations

import hashlib
import json
import logging
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api import config
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.spec import PipelineSpec
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.sequences import chunks
from kernelsearch.core.tables import import_pandas, text_table
from kernelsearch.core.types import Query
from kernelsearch.engines.processes import ProcessEngine
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.evaluation.significance import bootstrap_interval, paired_t
from kernelsearch.learning.folds import topic_folds
from kernelsearch.lucene.index import FirstStage
from kernelsearch.rerankers import registry
from kernelsearch.tuning import space
from kernelsearch.tuning.fitting import fit_missing
from kernelsearch.tuning.folds import Choice, choose
from kernelsearch.tuning.journal import Journal
from kernelsearch.tuning.space import Setting
from kernelsearch.tuning.trials import Plan, Trials, stage_key, try_settings, write_plan
from kernelsearch.vectors.settings import VectorSettings

if TYPE_CHECKING:
    from pandas import DataFrame

    from kernelsearch.api.index import Index

logger = logging.getLogger(__name__)
#: Settings per task: results are saved after each task, and a method can share work within one.
TASK_SIZE = 10


@dataclass(frozen=True, repr=False)
class Tuned:
    """The outcome of tuning.

    `plan` is what was measured, with the folders of fitted state; `tried` are the settings and `values` (settings, topics) what
    was measured; `choice` is the one chosen among them; `untuned` and `first_stage` (topics,) are the values of the original
    pipeline and of its first stage. Prints as the tables of `kernelsearch.tune`.
    """

    plan: Plan
    tried: list[Setting]
    choice: Choice
    untuned: NDArray[np.float64]
    first_stage: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def best(self) -> Setting:
        """The setting with the best mean over all topics."""
        return self.tried[self.choice.best]

    @property
    def held_out(self) -> float:
        """The mean over topics, each measured with the setting that was chosen without its fold."""
        return float(self.choice.held_out.mean())

    @property
    def options(self) -> dict[str, Any]:
        """The best setting as keywords of `Index.search`: `index.search(text, rerank, **tuned.options)`."""
        options, parts = space.split(self.best, self.plan.names)
        searched = dict(self.plan.method_settings(self.best))
        for name, part in parts.items():
            fitted = space.fit_part(name, part)
            keys = [key for key in part if key not in fitted]
            keys += [str(registry.method(name).fitted_option)] if fitted else []
            options |= {Flag(key, name).in_python(): searched[name][key] for key in keys}
        return options

    def to_dataframe(self) -> DataFrame:
        """A pandas DataFrame with one row per setting, best first.

        Its columns are the parameters, the mean of the measure over all topics, and `folds`, the number of folds that chose the
        setting without seeing their topics.
        """
        pandas = import_pandas()
        frame = pandas.DataFrame(self.tried)
        frame[self.plan.measure] = self.values.mean(axis=1)
        chosen = [fold.chosen for fold in self.choice.folds]
        frame["folds"] = [chosen.count(number) for number in range(len(self.tried))]
        return frame.sort_values(self.plan.measure, ascending=False, kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        choice, measure = self.choice, self.plan.measure
        rows = [
            (
                number,
                len(fold.topics),
                f"{fold.training_mean:.4f}",
                f"{fold.held_out_mean:.4f}",
                space.label(self.tried[fold.chosen]),
            )
            for number, fold in enumerate(choice.folds, 1)
        ]
        means = [("first stage, as given", f"{self.first_stage.mean():.4f}")] if self.plan.methods else []
        means += [("pipeline, as given", f"{self.untuned.mean():.4f}"), ("tuned, held out", f"{self.held_out:.4f}")]
        gains = choice.held_out - self.untuned
        low, high = bootstrap_interval(gains)
        return "\n".join(
            [
                text_table(("fold", "topics", "training", "held out", "chosen"), rows, align=">>>><"),
                "",
                text_table((measure, "mean"), means),
                f"tuned against given: {gains.mean():+.4f}, 95% interval [{low:+.4f}, {high:+.4f}], "
                f"paired t test p = {paired_t(gains):.4f}",
                f"best of {len(self.tried)} settings: {space.label(self.best)}",
            ]
        )


def tune_pipeline(
    index: Index,
    spec: PipelineSpec,
    topics: Mapping[str, str],
    qrels: Mapping[str, Mapping[str, int]],
    tried: Mapping[tuple[str, str], Any],
    *,
    measure: str,
    samples: int | None,
    folds: int,
    seed: int,
    processes: int,
    output: Path | None,
    results: Path | None,
) -> Tuned:
    """Tries settings of a pipeline on judged topics and chooses among them by k-fold cross-validation; see `Index.tune`.

    Parameters
    ----------
    index : the opened index
    spec : the pipeline to start from
    topics : {qid: text}
    qrels : {qid: {docid: grade}}
    tried : {(owner, name): values} as `space.read_dimension` takes them
    measure, samples, folds, seed, processes, output, results : those of `Index.tune`

    Raises OptionError for parameters of training without `output`, and for more folds than topics.
    """
    dimensions = [space.read_dimension(owner, name, values, spec.names) for (owner, name), values in tried.items()]
    chosen = list(space.draws(dimensions, samples, seed) if samples else space.grid(dimensions))
    parts = space.split(dict.fromkeys(dimension.name for dimension in dimensions), spec.names)[1]
    fitted = [Flag(key.replace("_", "-"), name) for name, part in parts.items() for key in space.fit_part(name, part)]
    if fitted and output is None:
        raise OptionError(
            "not given; what is fitted for each value of ", fitted[0], " is kept beside it", option=Flag("output")
        )
    pipeline = spec.open(index)
    plan = _make_plan(spec, measure, topics, qrels)
    assigned = topic_folds(plan.qids, folds, seed)  # before the work, for it may refuse the number of folds
    made_with, vectors = config.made_with(pipeline, {}), index.vector_settings
    if vectors != VectorSettings():
        made_with |= {"vectors": vectors.to_dict()}
    queries = index.lucene.queries([topics[qid] for qid in plan.qids], plan.qids)
    with tempfile.TemporaryDirectory(prefix="kernelsearch-tune-") as scratch:
        place = output or Path(scratch) / "tuned.toml"
        journal = Journal(results or f"{place}.results.jsonl", _identity(plan, queries, made_with), plan.qids)
        with journal:
            if journal.values:
                logger.info("%s: %d settings are known already", journal.path, len(journal.values))
            plan = fit_missing(plan, index, chosen, Path(f"{place}.fitted"))
            # The original pipeline, an empty setting, is measured for comparison and cannot be chosen.
            everything: list[Setting] = [{}, *chosen]
            first_stage = _run_trials(index, plan, topics, queries, everything, journal, processes)
        values = np.array([journal.values[space.key(setting)] for setting in everything])
        tuned = Tuned(plan, chosen, choose(values[1:], assigned), values[0], first_stage, values[1:])
    if output is not None:
        _write_best(output, tuned, pipeline, seed)
    return tuned


def _make_plan(spec: PipelineSpec, measure: str, topics: Mapping[str, str], qrels: Mapping[str, Mapping[str, int]]) -> Plan:
    """What all settings share."""
    measures = parse_measures([measure], Flag("measure"))
    if len(measures) != 1:
        raise InputError(f"{measure!r} names {len(measures)} measures; give one", option=Flag("measure"))
    # Sorted, so that folds don't depend on the order of the file.
    qids = sorted(qid for qid in topics if qid in qrels)
    if not qids:
        raise InputError("none of them is judged", option=Flag("topics"))
    unjudged, missing = sum(qid not in qrels for qid in topics), sum(qid not in topics for qid in qrels)
    if unjudged or missing:
        logger.info("left out: %d topics without judgements, %d judged topics that are not among the topics", unjudged, missing)
    judged = {qid: dict(qrels[qid]) for qid in qids}
    return Plan(measure=str(measures[0]), first=spec.first.to_dict(), methods=spec.options(), qrels=judged, qids=qids)


def _write_best(path: Path, tuned: Tuned, pipeline: Pipeline, seed: int) -> None:
    """Writes the best setting of `tuned`, of `pipeline`, as a config file for search."""
    plan, choice, index = tuned.plan, tuned.choice, pipeline.index
    comment = (
        f"Best of {len(tuned.tried)} settings by {plan.measure} over {len(plan.qids)} topics: {space.label(tuned.best)}\n"
        f"Held-out {plan.measure} by {len(choice.folds)}-fold cross-validation, seed {seed}: {choice.held_out.mean():.4f}"
    )
    folders = [str(folder) for folder in index.shards.folders]
    vectors = {f"vectors_{name}": value for name, value in index.vector_settings.to_dict().items()}
    verb = {"index": folders[0] if len(folders) == 1 else folders, "language": index.language, **vectors}
    methods = plan.method_settings(tuned.best)
    config.write(path, verb, plan.first_settings(tuned.best).to_dict(), methods, config.made_with(pipeline, {}), comment)


def _identity(plan: Plan, queries: Sequence[Query], made_with: Mapping[str, Any]) -> str:
    """A hash of everything that the values of a setting depend on.

    That is `plan`, `queries` and `made_with`, the versions of libraries and data.
    """
    everything = {
        "plan": {**asdict(plan), "fitted": {}},
        "queries": [asdict(query) for query in queries],
        "with": made_with,
    }
    return hashlib.sha256(json.dumps(everything, sort_keys=True).encode()).hexdigest()


def _run_trials(
    index: Index,
    plan: Plan,
    texts: Mapping[str, str],
    queries: Sequence[Query],
    tried: Sequence[Setting],
    journal: Journal,
    processes: int,
) -> NDArray[np.float64]:
    """Tries the settings that the journal lacks; returns the values of the original first stage (topics,)."""
    missing = [setting for setting in tried if space.key(setting) not in journal.values]
    groups: dict[str, list[Setting]] = {}
    stages: dict[str, FirstStage] = {stage_key(plan, {}): plan.stage({})}
    for setting in missing:
        groups.setdefault(stage_key(plan, setting), []).append(setting)
        stages.setdefault(stage_key(plan, setting), plan.stage(setting))
    tasks = [list(part) for group in groups.values() for part in chunks(group, TASK_SIZE)]
    topics = [Topic(qid, texts[qid]) for qid in plan.qids]
    with tempfile.TemporaryDirectory(prefix="kernelsearch-tune-") as folder:
        lists = {
            stage: [found.candidates for found in run_topics(Pipeline(index, stage), topics, threads=processes)]
            for stage in stages.values()
        }
        write_plan(Path(folder), plan, queries, lists)
        trials = Trials(Path(folder), index)
        first = trials.judged.values(trials.measure, range(len(plan.qids)), trials.lists(plan.stage({})))
        with (
            ProcessEngine(min(processes, len(tasks))) as engine,
            index.progress("tuning", total=len(tried), unit="setting") as bar,
        ):
            engine.start()  # a task, many settings on all topics, takes longer than the start of a process
            bar.update(len(tried) - len(missing))
            measured = engine.map_shared(try_settings, tasks, trials, label="tune")
            for task, values in zip(tasks, measured, strict=True):
                for setting, row in zip(task, values, strict=True):
                    journal.add(setting, row)
                bar.update(len(task))
    return first
