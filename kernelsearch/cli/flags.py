"""The flags of a command: declared options added to a parser, their values read and checked, and what they describe opened.

What search, explain, tune, demo and reproduce share is the parser with the options of the first stage and of every method, and
the pipeline that its values describe; other verbs have parsers of their own.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from kernelsearch.api import config
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.spec import PipelineSpec
from kernelsearch.cli import pyserini_flags
from kernelsearch.cli.console import Parser
from kernelsearch.cli.search_settings import FOR_TOPICS, IN_CONFIG, SearchSettings
from kernelsearch.cli.settings import IndexReaderSettings
from kernelsearch.core.errors import IndexProblem, InputError, OptionError
from kernelsearch.core.files import check_output
from kernelsearch.core.options import Option, Settings
from kernelsearch.core.progress import Progress
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.trec.topics import parse_part
from kernelsearch.vectors.settings import VectorSettings

S = TypeVar("S", bound=Settings)

#: Options of a config file that apply to a single query on the terminal; what the file says about a run does not.
SINGLE_QUERY = ("index", "language", "java_heap", "vectors_name", "vectors_queries", "vectors_encoder")


def add_flags(parser: argparse.ArgumentParser, options: Iterable[Option], owner: str = "", title: str | None = None) -> None:
    """Adds the flags of `options` to `parser`, below the heading `title` of the help if given.

    A flag is `--name`, or `--owner.name` where `owner` is given.

    A flag that is not on the command line leaves no attribute, so that config files and defaults can fill its place.
    """
    group = parser.add_argument_group(title or owner) if (title or owner) else parser
    for declared in options:
        stem = f"{owner}.{declared.name}" if owner else declared.name
        dest = f"{owner}.{declared.key}" if owner else declared.key
        text = declared.help.replace("%", "%%")
        if declared.kind is bool and not declared.many:
            # Help shows only the switch that changes the default; the other one is accepted as well.
            off = f"{owner}.no-{declared.name}" if owner else f"no-{declared.name}"
            help_on, help_off = (argparse.SUPPRESS, f"don't {text}") if declared.default is True else (text, argparse.SUPPRESS)
            group.add_argument(f"--{stem}", dest=dest, action="store_true", default=argparse.SUPPRESS, help=help_on)
            group.add_argument(f"--{off}", dest=dest, action="store_false", default=argparse.SUPPRESS, help=help_off)
            continue
        if declared.choices:
            text += f" ({', '.join(map(str, declared.choices))})"
        if declared.default not in (None, ()):
            shown = ",".join(map(str, declared.default)) if declared.many else declared.default
            text += f" [{shown}]"
        metavar = {int: "N", float: "X"}.get(declared.kind, "TEXT")
        action, count = "append" if declared.repeat else "store", "+" if declared.words else None
        group.add_argument(
            f"--{stem}", dest=dest, action=action, nargs=count, default=argparse.SUPPRESS, metavar=metavar, help=text
        )


def add_method_flags(parser: argparse.ArgumentParser, options: Mapping[str, tuple[str, tuple[Option, ...]]]) -> None:
    """Adds the flags `--METHOD.name` to `parser`; `options` is {method: (its summary, its options)}."""
    for name, (summary, declared) in options.items():
        add_flags(parser, declared, owner=name, title=f"--rerank {name}: {summary}")


def read_flags(settings: type[S], arguments: argparse.Namespace) -> S:
    """The settings of a class from parsed `arguments`, with defaults for what is not given.

    Raises OptionError for a value that its option refuses.
    """
    values, prefix = vars(arguments), f"{settings.owner}." if settings.owner else ""
    keys = [declared.key for declared in settings.options]
    return settings.of({key: values[prefix + key] for key in keys if prefix + key in values})


def refuse_flag(name: str, *, fit: bool = False) -> None:
    """Raises OptionError for the flag `--METHOD.NAME` that no parser knows; `fit`: methods' options are those of train."""
    owner, dot, rest = name.partition(".")
    if dot and owner in registry.names():
        registry.method(owner).find_option(rest.removeprefix("no-"), fit=fit)


def pipeline_pairs(arguments: argparse.Namespace) -> Iterator[tuple[tuple[str, str], Any]]:
    """The options of the first stage and of methods in parsed `arguments`, as pairs ((owner, name), value)."""
    first = {declared.key for declared in FirstStageSettings.options}
    for dest, value in vars(arguments).items():
        owner, dot, name = dest.partition(".")
        if dot or dest in first:
            yield (owner, name) if dot else ("", dest), value


def require(parser: argparse.ArgumentParser, settings: Settings, *names: str) -> None:
    """Ends the command with the error of `parser` and status 2 where one of the options `names` of `settings` is not given."""
    for name in names:
        if getattr(settings, name) is None:
            parser.error(f"--{name} is not given")


def require_training_or_model(
    parser: argparse.ArgumentParser, train: str | None, model: str | None, predict: str | None, folds: int | None
) -> None:
    """Ends the command with the error of `parser` where there is nothing to learn from, or nothing to do with what is learned.

    `train`, `model`, `predict` and `folds` are the values of the options of these names.
    """
    if train is None and (model is None or predict is None):
        parser.error("--train, or --model and --predict, are needed")
    if train is not None and not (folds or model or predict):
        parser.error("--train: name what is asked for: --folds, --model or --predict")


def open_index(
    settings: IndexReaderSettings,
    progress: Progress,
    *,
    java_heap: str | None = None,
    language: str | None = None,
    few_calls: bool = False,
) -> Index:
    """Opens the index that the `settings` of a verb name.

    Parameters
    ----------
    progress : what long steps report to
    java_heap : the largest heap of Java where `--java-heap` is not given
    language : that of queries; None: the index's
    few_calls : the command searches once and ends, for which Java starts faster
    """
    assert settings.index is not None  # verbs refuse a command line without --index
    # A verb whose methods use no vectors has no options for them.
    vectors = {declared.key: getattr(settings, f"vectors_{declared.key}", None) for declared in VectorSettings.options}
    heap = settings.java_heap or java_heap
    return Index(settings.index, language=language, java_heap=heap, progress=progress, vectors=vectors, few_calls=few_calls)


def make_parser(
    verb: str, description: str, examples: str, options: tuple[Option, ...], common: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """A parser with the `options` of the `verb`, those of the first stage and of every method.

    `description` and `examples` are texts of its help, `common` are the options of the short help.
    """
    methods, apart = registry.methods(), registry.paper_names()
    parser = Parser(
        prog=f"python -m kernelsearch.{verb}",
        description=description,
        epilog=examples,
        common=common,
        apart=apart,
        refuse=refuse_flag,
    )
    add_flags(parser, options)
    add_flags(parser, FirstStageSettings.options, title="first stage")
    parser.add_argument(
        "--rerank",
        action="append",
        default=[],
        metavar="NAME",
        help=f"rerank with this method; repeatable ({', '.join(name for name in methods if name not in apart)})",
    )
    add_method_flags(parser, {name: (method.summary, method.options) for name, method in methods.items()})
    return parser


def parse(
    parser: argparse.ArgumentParser, argv: list[str], allowed: Sequence[str] | None = None
) -> tuple[argparse.Namespace, config.Config | None]:
    """Parses the flags `argv` by `parser` and fills what they leave open from the file of `--config`.

    `allowed` are the options that are taken from the top level of the file; None: all of search, or those of a single query.
    Returns the arguments and the content of the file, or None without one. `arguments.on_command_line` are the names
    of those that were typed. Raises InputError for a file with an option that is not allowed and changes what is retrieved.
    """
    arguments = parser.parse_args(argv)
    arguments.on_command_line = frozenset(vars(arguments))
    if not pyserini_flags.REWRITTEN.isdisjoint(vars(arguments)):
        pyserini_flags.rewrite(arguments)
    if not hasattr(arguments, "config"):
        return arguments, None
    recipe = config.read(arguments.config, IN_CONFIG)
    if allowed is None:
        allowed = (*SINGLE_QUERY, *pyserini_flags.EXTENDING) if hasattr(arguments, "query") else tuple(recipe.verb)
    for name in [name for name in recipe.verb if name not in allowed]:
        value, default = recipe.verb.pop(name), getattr(SearchSettings(), name)
        if name in pyserini_flags.EXTENDING and value != default:
            flag = name.replace("_", "-")
            raise InputError(f"{arguments.config}: {flag}: taken by search only; without it, other documents would be ranked")
    _fill(arguments, recipe)
    return arguments, recipe


def _fill(arguments: argparse.Namespace, recipe: config.Config) -> None:
    """Sets the values of a config file in parsed `arguments`, in place, where the command line has none."""
    arguments.rerank = arguments.rerank or recipe.methods
    values = dict(recipe.verb)
    for owner, part in recipe.values.items():
        if not owner or owner in arguments.rerank:
            values |= {f"{owner}.{key}" if owner else key: value for key, value in part.items()}
    for dest, value in values.items():
        if not hasattr(arguments, dest):
            setattr(arguments, dest, value)


def check_search(parser: argparse.ArgumentParser, settings: SearchSettings) -> None:
    """Ends the command with the error of `parser` where an option of `settings` is missing or has no effect."""
    require(parser, settings, "index")
    if (settings.query is None) == (settings.topics is None):
        parser.error("one of --query and --topics is needed")
    if settings.json and settings.query is None:
        parser.error("--json: has no effect without --query")
    if settings.query is not None and not settings.query.strip():
        raise InputError("--query: no text")
    for declared in settings.options if settings.query is not None else ():
        if declared.key in FOR_TOPICS and getattr(settings, declared.key) != declared.default:
            parser.error(f"--{declared.name}: has no effect without --topics")
    if settings.topics is not None and settings.output is None:
        parser.error("--output: the run file to write is not given")
    check_output("output", settings.output, (settings.topics, settings.run))
    if settings.shard is not None:
        parse_part(settings.shard)
    if settings.max_passage and not settings.max_passage_delimiter:
        raise OptionError("--max-passage-delimiter: an empty text separates no passages")


def read_pipeline(arguments: argparse.Namespace) -> PipelineSpec:
    """The pipeline in parsed `arguments`, checked before any index is opened; raises OptionError as `spec.check` does."""
    return PipelineSpec.of(arguments.rerank, pipeline_pairs(arguments))


def open_pipeline(
    arguments: argparse.Namespace, settings: SearchSettings, progress: Progress
) -> tuple[Pipeline, FirstStageSettings]:
    """The pipeline of search with the settings of its first stage, from parsed `arguments` and the `settings` in them.

    The index is a folder or, with the full pyserini installed, the name of one of Pyserini's prebuilt indexes. Long steps
    report to `progress`.
    """
    chosen = read_pipeline(arguments)
    extended = not pyserini_flags.EXTENDING.isdisjoint(vars(arguments))
    language = pyserini_flags.query_language(settings) if extended else settings.language
    try:
        index = open_index(settings, progress, language=language, few_calls=settings.query is not None)
    except IndexProblem:
        prebuilt = pyserini_flags.prebuilt_folder(settings)
        if prebuilt is None:
            raise
        index = open_index(dataclasses.replace(settings, index=prebuilt), progress, language=language)
        pyserini_flags.set_bm25(arguments, str(settings.index))
        chosen = read_pipeline(arguments)
    if extended:
        chosen = dataclasses.replace(chosen, first_stage=pyserini_flags.extend(chosen.first_stage, settings))
    if settings.stopwords is not None:
        pyserini_flags.set_stopwords(index, settings.stopwords)
    return chosen.open(index), chosen.first


def pipeline_from_flags(flags: list[str], index: Index) -> Pipeline:
    """The pipeline over `index` that `flags` of search describe, such as `--rm3 --rerank klsa`; other options are refused."""
    return read_pipeline(make_parser("search", "", "", ()).parse_args(flags)).open(index)
