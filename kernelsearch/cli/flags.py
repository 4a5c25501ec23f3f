"""Declared options as command-line flags: adding them to a parser, reading their values, and options that verbs share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from kernelsearch.api.index import Index
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option, Settings, option
from kernelsearch.core.progress import Progress
from kernelsearch.lucene import jvm
from kernelsearch.vectors.settings import VectorSettings

S = TypeVar("S", bound=Settings)

#: Formats of topic files, for `--topics-format`.
TOPIC_FORMATS = ("tsv", "trec", "jsonl", "cacm")


def _vector_flag(name: str) -> Any:
    """An option of VectorSettings as a flag `--vectors.NAME` of a verb."""
    declared = next(entry for entry in VectorSettings.options if entry.name == name)
    return option(None, declared.help, repeat=declared.repeat, name=f"{VectorSettings.owner}.{name}")


@dataclass(frozen=True, kw_only=True)
class JavaSettings(Settings):
    """The option of every verb that starts Java."""

    java_heap: str | None = option(None, "largest size of Java's heap, such as 4g")


@dataclass(frozen=True, kw_only=True)
class IndexReaderSettings(JavaSettings):
    """Options of every verb that reads an index."""

    index: str | tuple[str, ...] | None = option(
        None, "the index, or a folder of shards; repeat it to read several indexes as one collection", repeat=True
    )

    #: The options in the order in which help lists them: the index first, Java's heap last.
    flags: ClassVar[tuple[Option, ...]] = ()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        ends = IndexReaderSettings.options
        rest = tuple(declared for declared in cls.options if declared not in ends)
        cls.flags = (*ends[:1], *rest, *ends[1:])

    def open_index(
        self, progress: Progress, *, java_heap: str | None = None, language: str | None = None, few_calls: bool = False
    ) -> Index:
        """Opens the index.

        Parameters
        ----------
        progress : what long steps report to
        java_heap : the largest heap of Java where `--java-heap` is not given
        language : that of queries; None: the index's
        few_calls : the command searches once and ends, for which Java starts quicker
        """
        assert self.index is not None  # verbs refuse a command line without --index
        if few_calls:
            jvm.expect_few_calls()
        heap = self.java_heap or java_heap
        return Index(self.index, language=language, java_heap=heap, progress=progress, vectors=self.vectors)

    @property
    def vectors(self) -> VectorSettings:
        """Which vectors methods use that name none, and where query vectors come from."""
        return VectorSettings()


@dataclass(frozen=True, kw_only=True)
class VectorFlags(IndexReaderSettings):
    """Options of every verb whose methods may use vectors."""

    vectors_name: str | None = _vector_flag("name")
    vectors_queries: str | tuple[str, ...] | None = _vector_flag("queries")
    vectors_encoder: str | None = _vector_flag("encoder")

    @property
    def vectors(self) -> VectorSettings:
        """The settings that the flags `--vectors.*` make."""
        return VectorSettings(name=self.vectors_name, queries=self.vectors_queries, encoder=self.vectors_encoder)


@dataclass(frozen=True, kw_only=True)
class QuerySettings(VectorFlags):
    """Options of every verb that analyses queries."""

    language: str | None = option(None, "language in which queries are analysed; default: the language of the index")


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


def collect(arguments: argparse.Namespace, options: Iterable[Option], owner: str = "") -> dict[str, Any]:
    """The checked values of `options` of one `owner` in parsed `arguments`, by Python name; those not given are absent."""
    prefix = f"{owner}." if owner else ""
    values = vars(arguments)
    return {
        declared.key: declared.parse(values[prefix + declared.key], owner)
        for declared in options
        if prefix + declared.key in values
    }


def method_values(arguments: argparse.Namespace) -> dict[str, dict[str, Any]]:
    """{method: {option: value}} of all flags `--METHOD.name` in parsed `arguments`, unchecked."""
    values: dict[str, dict[str, Any]] = {}
    for dest, value in vars(arguments).items():
        owner, dot, name = dest.partition(".")
        if dot:
            values.setdefault(owner, {})[name] = value
    return values


def refuse_unused(values: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises OptionError for `values`, {method: {option: value}}, of methods that the command doesn't use, if any."""
    for name, unused in values.items():
        raise OptionError(f"--{name}.{next(iter(unused)).replace('_', '-')}: has no effect without --rerank {name}")


def require(parser: argparse.ArgumentParser, settings: Settings, *names: str) -> None:
    """Ends the command with the error of `parser` and status 2 where one of the options `names` of `settings` is not given."""
    for name in names:
        if getattr(settings, name) is None:
            parser.error(f"--{name} is not given")
