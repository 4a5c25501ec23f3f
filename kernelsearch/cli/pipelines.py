"""From flags and config files to a pipeline: what search, explain, tune, demo and reproduce share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Methods, Pipeline
from kernelsearch.cli import config, pyserini_flags
from kernelsearch.cli.console import Parser
from kernelsearch.cli.flags import add_flags, collect, read_flags
from kernelsearch.cli.search_settings import IN_CONFIG
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Settings
from kernelsearch.lucene.first_stage import FirstStage, FirstStageSettings
from kernelsearch.rerankers import registry

#: Options of a config file that an answer on the terminal takes: what the file says of a run doesn't apply.
FOR_ONE_QUERY = ("index", "language", "java_heap")


def make_parser(verb: str, description: str, examples: str, settings: type[Settings]) -> argparse.ArgumentParser:
    """A parser with the verb's options, the first stage's, and those of every method."""
    parser = Parser(prog=f"python -m kernelsearch.{verb}", description=description, epilog=examples)
    add_flags(parser, settings.options)
    add_flags(parser, FirstStageSettings.options, title="first stage")
    known = ", ".join(registry.names())
    parser.add_argument(
        "--rerank", action="append", default=[], metavar="NAME", help=f"rerank with this method; repeatable ({known})"
    )
    for name, method in registry.methods().items():
        add_flags(parser, method.options, owner=name, title=f"--rerank {name}: {method.summary}")
    return parser


def parse(
    parser: argparse.ArgumentParser, argv: list[str], taken: Sequence[str] | None = None
) -> tuple[argparse.Namespace, config.Config]:
    """Flags, with the values of `--config` below them; `taken` are the file's options that count (None: all of them)."""
    arguments = parser.parse_args(argv)
    if hasattr(arguments, "prcl"):
        pyserini_flags.take_prcl(arguments)
    recipe = config.read(arguments.config, IN_CONFIG) if hasattr(arguments, "config") else config.Config()
    if hasattr(arguments, "query"):
        taken = FOR_ONE_QUERY
    for name in set(recipe.verb) - set(recipe.verb if taken is None else taken):
        del recipe.verb[name]
    config.fill(arguments, recipe)
    return arguments, recipe


@dataclass(frozen=True)
class PipelineSettings:
    """What flags say of a pipeline: the first stage's options, and the methods with theirs."""

    first: FirstStageSettings
    methods: Methods

    def open(self, index: Index) -> Pipeline:
        """The pipeline over an index."""
        return Pipeline(index, FirstStage.from_settings(self.first), self.methods)


def read_pipeline(arguments: argparse.Namespace) -> PipelineSettings:
    """The checked pipeline options, before any index is opened."""
    first = read_flags(FirstStageSettings, arguments)
    FirstStage.from_settings(first)
    return PipelineSettings(first, _chosen_methods(arguments))


def _chosen_methods(arguments: argparse.Namespace) -> Methods:
    """The methods with their given options. Options of a method that isn't used are refused: they would be silently lost."""
    names: list[str] = arguments.rerank
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"--rerank {name}: given {names.count(name)} times; a method reranks once")
    chosen = [(name, collect(arguments, registry.method(name).options, name)) for name in names]
    for name, method in registry.methods().items():
        if name not in names and (given := collect(arguments, method.options, name)):
            raise OptionError(f"--{name}.{next(iter(given)).replace('_', '-')}: has no effect without --rerank {name}")
    return chosen


def pipeline_from_flags(flags: list[str], index: Index) -> Pipeline:
    """The pipeline that flags of search describe, such as `--rm3 --rerank klsa --klsa.z 5`; other options are refused."""
    return read_pipeline(make_parser("search", "", "", Settings).parse_args(flags)).open(index)
