"""From flags to a fitted method: what train, demo and reproduce share."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelsearch.cli.console import Parser
from kernelsearch.cli.flags import add_flags, add_method_flags, open_index, pipeline_pairs, read_flags, refuse_flag
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.cli.settings import VectorFlags
from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import option
from kernelsearch.core.progress import Progress, silent
from kernelsearch.engines import EngineSettings, make_engine
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import TrainingData

#: Help of --rerank.
METHODS = "method to fit, such as klsa or mslm (by the index), fusion (by --topics and --qrels) or rbm25 (by --clicks)"
#: Options of the short help.
COMMON = ("index", "rerank", "topics", "qrels", "clicks", "output", "memory-limit")


@dataclass(frozen=True, kw_only=True)
class TrainSettings(EngineSettings, VectorFlags):
    """Options of train."""

    topics: str | None = option(None, "training topics, for methods that learn from judgements: a file or irds:NAME")
    qrels: str | None = option(None, "relevance judgements of the training topics: a file or irds:NAME")
    clicks: str | None = option(None, "click log or database, for methods that learn from clicks")
    output: str | None = option(None, "folder to save the fitted state in; default: beside the index")
    memory_limit: str | None = option(None, "memory limit of the training, such as 4G; larger work is split into parts")


def make_parser(description: str, examples: str) -> argparse.ArgumentParser:
    """A parser with the options of train, and the training options of every method that has some.

    `description` and `examples` are texts of its help.
    """
    parser = Parser(
        prog="python -m kernelsearch.train",
        description=description,
        epilog=examples,
        common=COMMON,
        apart=registry.paper_names(),
        refuse=partial(refuse_flag, fit=True),
    )
    add_flags(parser, TrainSettings.flags)
    methods = registry.methods()
    parser.add_argument("--rerank", required=True, metavar="NAME", help=METHODS)
    trained = {name: (method.summary, method.fit_options) for name, method in methods.items() if method.fit_options}
    add_method_flags(parser, trained)
    return parser


def train(arguments: argparse.Namespace, *, progress: Progress = silent) -> Path:
    """Fits the method that parsed `arguments` name; long steps report to `progress`.

    Returns the folder where the fitted state was saved.
    """
    settings = read_flags(TrainSettings, arguments)
    method = registry.method(arguments.rerank)
    limit = MemoryLimit.parse(settings.memory_limit)
    options = {}
    for (owner, name), value in pipeline_pairs(arguments):
        if owner != method.name:
            raise OptionError("has no effect without ", Flag("rerank", value=owner), option=Flag(name.replace("_", "-"), owner))
        options[name] = value
    method.read_fit_settings(options)  # a wrong value is refused before files are read
    with make_engine(settings) as engine:
        data = TrainingData(
            topics=load_topics(settings.topics) if settings.topics else {},
            qrels=load_qrels(settings.qrels) if settings.qrels else {},
            clicks=Path(settings.clicks) if settings.clicks else None,
            output=Path(settings.output) if settings.output else None,
            memory_limit=limit,
            engine=engine,
            progress=progress,
        )
        index = open_index(settings, progress, java_heap=limit.java_heap if limit else None)
        return method.fit(index, data, **options)


def train_from_flags(flags: list[str], *, progress: Progress = silent) -> Path:
    """Fits what `flags` of train describe, such as `--index I --rerank klsa`; returns the folder of the fitted state.

    Long steps report to `progress`.
    """
    return train(make_parser("", "").parse_args(flags), progress=progress)
