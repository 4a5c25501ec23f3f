"""Tuning of a pipeline on judged topics, with cross-validation."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.sequences import chunks
from kernelsearch.core.tables import import_pandas, text_table
from kernelsearch.core.types import Candidates, Query
from kernelsearch.engines.processes import ProcessEngine
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

if TYPE_CHECKING:
    from pandas import DataFrame

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
        first, parts = space.split(self.best, self.plan.names)
        searched = dict(self.plan.method_settings(self.best))
        for name, part in parts.items():
            fitted = space.fit_part(name, part)
            keys = [key for key in part if key not in fitted]
            keys += [str(registry.method(name).fitted_option)] if fitted else []
            first |= {f"{name}_{key}": searched[name][key] for key in keys}
        return first

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


def settings_to_try(texts: Sequence[str], methods: Sequence[str], samples: int | None, seed: int) -> list[Setting]:
    """The whole grid of the `--try` options `texts`, or `samples` random draws from it with the seed `seed`.

    `methods` are the pipeline's. Raises OptionError and InputError for options that can't be tried.
    """
    dimensions = [space.parse_dimension(text, methods) for text in texts]
    names = [dimension.name for dimension in dimensions]
    if len(set(names)) < len(names):
        raise InputError("given twice", option=Flag("try", value=next(name for name in names if names.count(name) > 1)))
    return list(space.draws(dimensions, samples, seed) if samples else space.grid(dimensions))


def tune(
    pipeline: Pipeline,
    plan: Plan,
    texts: Mapping[str, str],
    tried: list[Setting],
    *,
    journal: Journal,
    fitted: Path,
    folds: int,
    seed: int,
    processes: int,
    progress: Progress = silent,
) -> Tuned:
    """Tries every setting on the plan's topics and chooses by k-fold cross-validation.

    Parameters
    ----------
    pipeline : the pipeline to tune
    plan : topics, judgements, measure and pipeline to measure
    texts : {qid: text} of the topics
    tried : the settings to try
    journal : gets the results; a run that was killed continues from it
    fitted : folder for the fitted state that training parameters ask for
    folds, seed : number and random seed of the folds
    processes : processes that try settings in parallel
    progress : gets the number of settings

    Raises OptionError for more folds than topics.
    """
    assigned = topic_folds(plan.qids, folds, seed)  # before the work, for it may refuse the number of folds
    plan = fit_missing(plan, pipeline.index, tried, fitted)
    # The original pipeline, an empty setting, is measured for comparison and cannot be chosen.
    everything: list[Setting] = [{}, *tried]
    first_stage = _run_trials(pipeline, plan, texts, everything, journal, processes, progress)
    values = np.array([journal.values[space.key(setting)] for setting in everything])
    choice = choose(values[1:], assigned)
    return Tuned(plan, tried, choice, values[0], first_stage, values[1:])


def identity(plan: Plan, queries: Sequence[Query], made_with: Mapping[str, Any]) -> str:
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
    pipeline: Pipeline,
    plan: Plan,
    texts: Mapping[str, str],
    tried: Sequence[Setting],
    journal: Journal,
    processes: int,
    progress: Progress,
) -> NDArray[np.float64]:
    """Tries the settings that the journal lacks; returns the values of the original first stage (topics,)."""
    missing = [setting for setting in tried if space.key(setting) not in journal.values]
    groups: dict[str, list[Setting]] = {}
    stages: dict[str, FirstStage] = {stage_key(plan, {}): plan.stage({})}
    for setting in missing:
        groups.setdefault(stage_key(plan, setting), []).append(setting)
        stages.setdefault(stage_key(plan, setting), plan.stage(setting))
    tasks = [list(part) for group in groups.values() for part in chunks(group, TASK_SIZE)]
    queries = pipeline.index.lucene.queries([texts[qid] for qid in plan.qids], plan.qids)
    with tempfile.TemporaryDirectory(prefix="kernelsearch-tune-") as folder:
        lists = {stage: _first_stage_lists(pipeline, stage, plan.qids, texts, processes) for stage in stages.values()}
        write_plan(Path(folder), plan, queries, lists)
        trials = Trials(Path(folder), pipeline.index)
        first = trials.judged.values(trials.measure, range(len(plan.qids)), trials.lists(plan.stage({})))
        with (
            ProcessEngine(min(processes, len(tasks))) as engine,
            progress("tuning", total=len(tried), unit="setting") as bar,
        ):
            engine.start()  # a task, many settings on all topics, takes longer than the start of a process
            bar.update(len(tried) - len(missing))
            measured = engine.map_shared(try_settings, tasks, trials, label="tune")
            for task, values in zip(tasks, measured, strict=True):
                for setting, row in zip(task, values, strict=True):
                    journal.add(setting, row)
                bar.update(len(task))
    return first


def _first_stage_lists(
    pipeline: Pipeline, stage: FirstStage, qids: Sequence[str], texts: Mapping[str, str], threads: int
) -> list[Candidates]:
    topics = [Topic(qid, texts[qid]) for qid in qids]
    return [topic_list.candidates for topic_list in run_topics(Pipeline(pipeline.index, stage), topics, threads=threads)]
