"""Options that verbs share: those of Java, of the index, of vectors and of queries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from kernelsearch.core.options import Option, Settings, option
from kernelsearch.vectors.settings import VectorSettings

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


@dataclass(frozen=True, kw_only=True)
class VectorFlags(IndexReaderSettings):
    """Options of every verb whose methods may use vectors."""

    vectors_name: str | None = _vector_flag("name")
    vectors_queries: str | tuple[str, ...] | None = _vector_flag("queries")
    vectors_encoder: str | None = _vector_flag("encoder")


@dataclass(frozen=True, kw_only=True)
class QuerySettings(VectorFlags):
    """Options of every verb that analyses queries."""

    language: str | None = option(None, "language in which queries are analysed; default: the language of the index")
