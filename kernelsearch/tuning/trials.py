"""Trying settings: the first stage is searched once per setting of its own, and rerankers share what they can.

The plan is in a folder that all processes read: queries, judgements and, memory-mapped, the first stage's lists. So a worker
starts no JVM unless a method searches again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Candidates, Query
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Context, OpenedIndex, Reranker
from kernelsearch.tuning.space import Setting, fit_part, key, split

#: Queries that are reranked at a time for all settings of a task; bounds the memory.
BATCH = 32


@dataclass(frozen=True)
class Plan:
    """What is the same for all settings: the options of the pipeline that the user set, and what is measured."""

    measure: str  #: the measure's name
    first: dict[str, Any]  #: options of the first stage that the user set
    methods: list[tuple[str, dict[str, Any]]]  #: methods, with their options that the user set
    qrels: dict[str, dict[str, int]]  #: {qid: {docid: grade}}
    qids: list[str]  #: the topics that are measured, in order
    fitted: dict[str, str] = field(default_factory=dict)  #: fitted folders, by key({method: parameters of training})

    def stage(self, setting: Setting) -> FirstStage:
        """The first stage under a setting; raises OptionError for options that exclude each other."""
        return FirstStage.from_settings(self.first_settings(setting))

    def first_settings(self, setting: Setting) -> FirstStageSettings:
        """The first stage's options under a setting."""
        return FirstStageSettings.of({**self.first, **split(setting, self.names)[0]})

    def method_settings(self, setting: Setting) -> list[tuple[str, dict[str, Any]]]:
        """(method, options) of the pipeline under a setting."""
        parts, out = split(setting, self.names)[1], []
        for name, fixed in self.methods:
            part, fitted = dict(parts[name]), fit_part(name, parts[name])
            if fitted:
                part = {option: value for option, value in part.items() if option not in fitted}
                part[str(registry.method(name).fitted_option)] = self.fitted[key({name: fitted})]
            out.append((name, {**fixed, **part}))
        return out

    @property
    def names(self) -> list[str]:
        """The names of the pipeline's methods, in order."""
        return [name for name, _ in self.methods]


def stage_key(plan: Plan, setting: Setting) -> str:
    """The first stage of a `setting` of `plan` as text: settings with the same key have the same first stage."""
    return repr(plan.stage(setting))


def write_plan(folder: Path, plan: Plan, queries: Sequence[Query], lists: Mapping[FirstStage, Sequence[Candidates]]) -> None:
    """Writes `plan` to `folder` with the `lists` of each first stage; these and `queries` are in the order of plan.qids."""
    (folder / "plan.json").write_text(json.dumps(asdict(plan)), encoding="utf-8")
    (folder / "queries.json").write_text(json.dumps([asdict(query) for query in queries]), encoding="utf-8")
    names = {}
    for number, (stage, stage_lists) in enumerate(lists.items()):
        np.save(folder / f"{number}.docs.npy", np.concatenate([listed.docs for listed in stage_lists]))
        np.save(folder / f"{number}.scores.npy", np.concatenate([listed.scores for listed in stage_lists]))
        np.save(folder / f"{number}.ends.npy", np.cumsum([listed.depth for listed in stage_lists]))
        names[repr(stage)] = number
    (folder / "stages.json").write_text(json.dumps(names), encoding="utf-8")


class Trials:
    """Measures settings on an index, from the folder of a plan (see `write_plan`).

    Another process opens the folder and the index again.
    """

    def __init__(self, folder: Path, index: OpenedIndex) -> None:
        self.folder, self.index = folder, index
        self.plan = Plan(**json.loads((folder / "plan.json").read_text(encoding="utf-8")))
        records = json.loads((folder / "queries.json").read_text(encoding="utf-8"))
        self.queries = [
            Query(record["text"], tuple(record["terms"]), tuple(record["weights"]), record["qid"]) for record in records
        ]
        self.stages = json.loads((folder / "stages.json").read_text(encoding="utf-8"))
        self.judged = JudgedRows(self.index.forward, self.plan.qrels, self.plan.qids)
        self.measure = parse_measures([self.plan.measure])[0]

    def __reduce__(self) -> tuple[Any, ...]:
        return Trials, (self.folder, self.index)

    def lists(self, stage: FirstStage) -> list[Candidates]:
        """The lists of a first stage, in the order of the queries."""
        number = self.stages[repr(stage)]
        docs, scores = (np.load(self.folder / f"{number}.{what}.npy", mmap_mode="r") for what in ("docs", "scores"))
        ends = np.load(self.folder / f"{number}.ends.npy")[:-1]
        return [
            Candidates(np.asarray(d), np.asarray(s)) for d, s in zip(np.split(docs, ends), np.split(scores, ends), strict=True)
        ]

    def values(self, settings: Sequence[Setting]) -> NDArray[np.float64]:
        """The measure per topic under settings that have the same first stage, shape (settings, topics)."""
        stage = self.plan.stage(settings[0])
        lists = self.lists(stage)
        chains = [self.plan.method_settings(setting) for setting in settings]
        rerankers: dict[str, Reranker[Any]] = {}
        for chain in chains:
            for name, options in chain:
                step = _step(name, options)
                if step not in rerankers:
                    rerankers[step] = registry.method(name).make(self.index, **options)
        context = Context(stage.model, stage.hits)
        paths = [tuple(_step(name, options) for name, options in chain) for chain in chains]
        values = np.empty((len(settings), len(self.queries)))
        for numbers in chunks(range(len(self.queries)), BATCH):
            queries = [self.queries[number] for number in numbers]
            ranked = _rerank([lists[number] for number in numbers], queries, paths, rerankers, context)
            for path in set(paths):
                path_values = self.judged.values(self.measure, numbers, ranked[path])
                for row, other in enumerate(paths):
                    if other == path:
                        values[row, numbers] = path_values
        return values


def _step(name: str, options: dict[str, Any]) -> str:
    """A reranker with its options as text, equal where both are."""
    return f"{name} {key(options)}"


def _rerank(
    lists: list[Candidates],
    queries: list[Query],
    paths: Sequence[tuple[str, ...]],
    rerankers: dict[str, Reranker[Any]],
    context: Context,
) -> dict[tuple[str, ...], list[Candidates]]:
    """The final lists of every path of steps; steps that several paths begin with are done once."""
    reached: dict[tuple[str, ...], list[Candidates]] = {(): lists}
    for depth in range(len(paths[0])):
        extended: dict[tuple[str, ...], list[Candidates]] = {}
        for start, before in reached.items():
            steps = list(dict.fromkeys(path[depth] for path in paths if path[:depth] == start))
            variants = [rerankers[step] for step in steps]
            for step, after in zip(steps, type(variants[0]).variants(variants, queries, before, context), strict=True):
                extended[(*start, step)] = after
        reached = extended
    return reached


def try_settings(settings: list[Setting], trials: Trials) -> NDArray[np.float64]:
    """`Trials.values` of `settings`, as a task of an engine."""
    return trials.values(settings)
