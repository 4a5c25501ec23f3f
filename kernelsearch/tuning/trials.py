"""Trying settings: the first stage is searched once a setting of its own, and rerankers share what they can.

The plan stands in a folder that all processes read: queries, judgements and, memory-mapped, the first stage's lists. A worker
therefore starts no JVM unless a method searches again.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Candidates, Query
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.lucene.first_stage import FirstStage, FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Context, OpenedIndex, Reranker
from kernelsearch.tuning.space import Setting, fit_part, key, split

#: Queries that are reranked at a time, for all settings of a task: keeps memory small.
BATCH = 32
#: A file of this name in the plan's folder ends its workers.
STOP = "stop"


@dataclass(frozen=True)
class Plan:
    """What stays the same for all settings: the pipeline as given, and what to measure."""

    measure: str
    first: dict[str, Any]  #: options of the first stage that were given
    methods: list[tuple[str, dict[str, Any]]]  #: methods with the options that were given
    qrels: dict[str, dict[str, int]]
    qids: list[str]
    fitted: dict[str, str] = field(default_factory=dict)  #: folders by what they were fitted with, key({method: parameters})

    def stage(self, setting: Setting) -> FirstStage:
        """The first stage under a setting; impossible combinations are refused."""
        return FirstStage.from_settings(self.first_settings(setting))

    def first_settings(self, setting: Setting) -> FirstStageSettings:
        """The first stage's options under a setting."""
        return FirstStageSettings.of({**self.first, **split(setting, self.names)[0]})

    def method_settings(self, setting: Setting) -> list[tuple[str, dict[str, Any]]]:
        """Each method with the options that it gets under a setting."""
        parts, out = split(setting, self.names)[1], []
        for name, given in self.methods:
            part, fitted = dict(parts[name]), fit_part(name, parts[name])
            if fitted:
                part = {option: value for option, value in part.items() if option not in fitted}
                part[str(registry.method(name).fitted_option)] = self.fitted[key({name: fitted})]
            out.append((name, {**given, **part}))
        return out

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.methods]


def stage_key(plan: Plan, setting: Setting) -> str:
    """Settings with the same key have the same first stage."""
    return repr(plan.stage(setting))


def write_plan(folder: Path, plan: Plan, queries: Sequence[Query], lists: Mapping[FirstStage, Sequence[Candidates]]) -> None:
    """Writes the plan with each first stage's lists; `queries` and lists are in the order of plan.qids."""
    (folder / "plan.json").write_text(json.dumps(asdict(plan)), encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps([asdict(query) for query in queries]), encoding="utf-8")
    names = {}
    for number, (stage, found) in enumerate(lists.items()):
        np.save(folder / f"{number}.docs.npy", np.concatenate([one.docs for one in found]))
        np.save(folder / f"{number}.scores.npy", np.concatenate([one.scores for one in found]))
        np.save(folder / f"{number}.ends.npy", np.cumsum([one.depth for one in found]))
        names[repr(stage)] = number
    (folder / "stages.json").write_text(json.dumps(names), encoding="utf-8")


class Trials:
    """Values of settings, from the folder of a plan."""

    def __init__(self, folder: Path, index: OpenedIndex) -> None:
        self.folder, self.index = folder, index
        self.plan = Plan(**json.loads((folder / "plan.json").read_text(encoding="utf-8")))
        records = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
        self.queries = [Query(one["text"], tuple(one["terms"]), tuple(one["weights"]), one["qid"]) for one in records]
        self.stages = json.loads((folder / "stages.json").read_text(encoding="utf-8"))
        self.judged = JudgedRows(self.index.forward, self.plan.qrels, self.plan.qids)
        self.measure = parse_measures([self.plan.measure])[0]

    def lists(self, stage: FirstStage) -> list[Candidates]:
        """The first stage's lists."""
        number = self.stages[repr(stage)]
        docs, scores = (np.load(self.folder / f"{number}.{what}.npy", mmap_mode="r") for what in ("docs", "scores"))
        ends = np.load(self.folder / f"{number}.ends.npy")[:-1]
        return [
            Candidates(np.asarray(d), np.asarray(s)) for d, s in zip(np.split(docs, ends), np.split(scores, ends), strict=True)
        ]

    def values(self, settings: Sequence[Setting]) -> np.ndarray:
        """The measure of every topic under settings that share their first stage, shape (settings, topics)."""
        stage = self.plan.stage(settings[0])
        lists = self.lists(stage)
        chains = [self.plan.method_settings(setting) for setting in settings]
        made: dict[str, Reranker[Any]] = {}
        for chain in chains:
            for name, options in chain:
                if _recipe(name, options) not in made:
                    made[_recipe(name, options)] = registry.method(name).make(self.index, **options)
        context = Context(stage.model, stage.hits)
        paths = [tuple(_recipe(name, options) for name, options in chain) for chain in chains]
        values = np.empty((len(settings), len(self.queries)))
        for numbers in chunks(range(len(self.queries)), BATCH):
            queries = [self.queries[number] for number in numbers]
            ranked = _rerank([lists[number] for number in numbers], queries, paths, made, context)
            for path in set(paths):
                found = self.judged.values(self.measure, numbers, ranked[path])
                for place, other in enumerate(paths):
                    if other == path:
                        values[place, numbers] = found
        return values


def _recipe(name: str, options: dict[str, Any]) -> str:
    return f"{name} {key(options)}"


def _rerank(
    lists: list[Candidates],
    queries: list[Query],
    paths: Sequence[tuple[str, ...]],
    made: dict[str, Reranker[Any]],
    context: Context,
) -> dict[tuple[str, ...], list[Candidates]]:
    """The final lists of every path. Paths that begin alike are walked together for as long as they are alike."""
    reached: dict[tuple[str, ...], list[Candidates]] = {(): lists}
    for depth in range(len(paths[0])):
        onward: dict[tuple[str, ...], list[Candidates]] = {}
        for start, before in reached.items():
            steps = list(dict.fromkeys(path[depth] for path in paths if path[:depth] == start))
            chosen = [made[step] for step in steps]
            for step, after in zip(steps, type(chosen[0]).variants(chosen, queries, before, context), strict=True):
                onward[(*start, step)] = after
        reached = onward
    return reached


_trials: Trials | None = None


def start_worker(folder: str, parent: int, index: OpenedIndex) -> None:
    """Makes a process ready for `try_settings`; it ends by itself when its parent is killed."""
    global _trials
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business
    threading.Thread(target=_end_with, args=(parent, Path(folder) / STOP), daemon=True).start()
    _trials = Trials(Path(folder), index)


def _end_with(parent: int, stop: Path) -> None:
    while os.getppid() == parent and not stop.exists():
        time.sleep(0.2)
    os._exit(1)


def stop_workers(folder: Path) -> None:
    """Ends all workers of a folder, in the middle of whatever they do."""
    (folder / STOP).touch()


def try_settings(settings: list[Setting]) -> np.ndarray:
    """Trials.values in a worker."""
    assert _trials is not None
    return _trials.values(settings)
