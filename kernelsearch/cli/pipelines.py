"""From flags and config files to a pipeline: what search, explain, tune, demo and reproduce share."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, field

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Methods, Pipeline
from kernelsearch.cli import config, pyserini_flags
from kernelsearch.cli.console import Parser
from kernelsearch.cli.flags import add_flags, add_method_flags, method_values, read_flags, refuse_unused, require
from kernelsearch.cli.search_settings import FOR_TOPICS, IN_CONFIG, SearchSettings
from kernelsearch.core.errors import IndexProblem, InputError, OptionError
from kernelsearch.core.files import check_output
from kernelsearch.core.options import Option
from kernelsearch.core.progress import Progress
from kernelsearch.lucene.first_stage import FirstStage, FirstStageSettings
from kernelsearch.rerankers import registry
from kernelsearch.trec.topics import parse_part

#: Options of a config file that apply to a single query on the terminal; what the file says about a run does not.
SINGLE_QUERY = ("index", "language", "java_heap", "vectors_name", "vectors_queries", "vectors_encoder")


def make_parser(
    verb: str, description: str, examples: str, options: tuple[Option, ...], common: Sequence[str] = ()
) -> argparse.ArgumentParser:
    """A parser with the `options` of the `verb`, those of the first stage and of every method.

    `description` and `examples` are texts of its help, `common` are the options of the short help.
    """
    parser = Parser(prog=f"python -m kernelsearch.{verb}", description=description, epilog=examples, common=common)
    add_flags(parser, options)
    add_flags(parser, FirstStageSettings.options, title="first stage")
    methods = registry.methods()
    parser.add_argument(
        "--rerank",
        action="append",
        default=[],
        metavar="NAME",
        help=f"rerank with this method; repeatable ({', '.join(methods)})",
    )
    add_method_flags(parser, {name: (method.summary, method.options) for name, method in methods.items()})
    return parser


def parse(
    parser: argparse.ArgumentParser, argv: list[str], allowed: Sequence[str] | None = None
) -> tuple[argparse.Namespace, config.Config | None]:
    """Parses the flags `argv` by `parser` and fills what they leave open from the file of `--config`.

    `allowed` are the options that are taken from the top level of the file; None: all of search, or those of a single query.
    Returns the arguments and the content of the file, or None without one. `arguments.given` are the names of those that were
    on the command line. Raises InputError for a file with an option that changes what is retrieved and that is not allowed.
    """
    arguments = parser.parse_args(argv)
    arguments.given = frozenset(vars(arguments))
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
    config.fill(arguments, recipe)
    return arguments, recipe


def check_search(parser: argparse.ArgumentParser, settings: SearchSettings) -> None:
    """Refuses `settings` that make no search, through the error of `parser` where an option is missing or has no effect."""
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
    check_output("--output", settings.output, (settings.topics, settings.run))
    if settings.shard is not None:
        parse_part(settings.shard)
    if settings.max_passage and not settings.max_passage_delimiter:
        raise OptionError("--max-passage-delimiter: an empty text separates no passages")


@dataclass(frozen=True)
class PipelineSettings:
    """The settings of a pipeline: those of the first stage, which `first_stage` is made of, and the methods with their options.

    Raises InputError for options of the first stage that exclude each other.
    """

    first: FirstStageSettings
    methods: Methods
    first_stage: FirstStage = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first_stage", FirstStage.from_settings(self.first))

    def open(self, index: Index) -> Pipeline:
        """The pipeline over the opened `index`."""
        return Pipeline(index, self.first_stage, self.methods)


def read_pipeline(arguments: argparse.Namespace) -> PipelineSettings:
    """The checked settings of the pipeline in parsed `arguments`, read before any index is opened.

    Raises OptionError for values that an option refuses, for a method that is named twice, and for options of a method that is
    not used, which would otherwise be lost in silence.
    """
    first = read_flags(FirstStageSettings, arguments)
    names: list[str] = arguments.rerank
    values = method_values(arguments)
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"--rerank {name}: given {names.count(name)} times; a method reranks once")
    methods = [(name, registry.method(name).settings.check(values.pop(name, {}))) for name in names]
    refuse_unused(values)
    return PipelineSettings(first, methods)


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
        index = settings.open_index(progress, language=language, few_calls=settings.query is not None)
    except IndexProblem:
        prebuilt = pyserini_flags.open_prebuilt(settings, language, progress)
        if prebuilt is None:
            raise
        index = prebuilt
        pyserini_flags.set_bm25(arguments, str(settings.index))
        chosen = read_pipeline(arguments)
    first = pyserini_flags.extend(chosen.first_stage, settings) if extended else chosen.first_stage
    if settings.stopwords is not None:
        pyserini_flags.set_stopwords(index, settings.stopwords)
    return Pipeline(index, first, chosen.methods), chosen.first


def pipeline_from_flags(flags: list[str], index: Index) -> Pipeline:
    """The pipeline over `index` that `flags` of search describe, such as `--rm3 --rerank klsa`; other options are refused."""
    return read_pipeline(make_parser("search", "", "", ()).parse_args(flags)).open(index)
