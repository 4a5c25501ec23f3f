"""From flags to a fitted method: what train, demo and reproduce share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api.index import Index
from kernelsearch.cli.console import Parser
from kernelsearch.cli.flags import add_flags, collect, read_flags
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.engines import EngineSettings, make_engine
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import FittedFeatures, TrainingData


@dataclass(frozen=True, kw_only=True)
class TrainSettings(EngineSettings):
    """Options of train."""

    index: str | tuple[str, ...] | None = option(
        None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True
    )
    topics: str | None = option(None, "training topics, where a method learns from judgements: a file or irds:NAME")
    qrels: str | None = option(None, "their judgements: a file or irds:NAME")
    clicks: str | None = option(None, "a click log, where a method learns from clicks")
    ltr: str | None = option(None, "a LETOR (svmlight) file of features to learn from, instead of an index")
    ltr_test: str | None = option(None, "with --ltr: a file to rank with what was learned, and its measures")
    output: str | None = option(None, "where to save; default: beside the index")
    memory_limit: str | None = option(
        None, "bound the memory of building, such as 4G; what doesn't fit is done in smaller parts"
    )
    java_heap: str | None = option(None, "Java's heap, such as 4g")


def make_parser(description: str, examples: str) -> argparse.ArgumentParser:
    """A parser with the options of train and those of every method that can be fitted."""
    parser = Parser(prog="python -m kernelsearch.train", description=description, epilog=examples)
    add_flags(parser, TrainSettings.options)
    known = ", ".join(registry.names())
    parser.add_argument("--rerank", required=True, metavar="NAME", help=f"the method to fit ({known})")
    for name, method in registry.methods().items():
        if method.fit_options:
            add_flags(parser, method.fit_options, owner=name, title=f"--rerank {name}: {method.summary}")
    return parser


def train(arguments: argparse.Namespace, *, progress: Progress = silent) -> FittedFeatures:
    """Fits the method that the flags name; returns the folder where it was saved, and measures on `--ltr-test`."""
    settings = read_flags(TrainSettings, arguments)
    method = registry.method(arguments.rerank)
    limit = MemoryLimit.parse(settings.memory_limit)
    heap = settings.java_heap or (limit.java_heap if limit else None)
    options = collect(arguments, method.fit_options, method.name)
    with make_engine(settings) as engine:
        data = TrainingData(
            topics=load_topics(settings.topics) if settings.topics else {},
            qrels=load_qrels(settings.qrels) if settings.qrels else {},
            clicks=Path(settings.clicks) if settings.clicks else None,
            output=Path(settings.output) if settings.output else None,
            ltr=Path(settings.ltr) if settings.ltr else None,
            ltr_test=Path(settings.ltr_test) if settings.ltr_test else None,
            memory_limit=limit,
            engine=engine,
            progress=progress,
        )
        if data.ltr is not None:
            return method.fit_features(data, **options)
        assert settings.index is not None
        index = Index(settings.index, java_heap=heap, progress=progress)
        return FittedFeatures(method.fit(index, data, **options))


def train_from_flags(flags: list[str], *, progress: Progress = silent) -> Path:
    """Fits what flags of train describe."""
    return train(make_parser("", "").parse_args(flags), progress=progress).path
