"""Options of the verbs of `python -m kernelsearch.clicks` that work on a database."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.clicks.pairs import KINDS
from kernelsearch.core.options import Settings, option

_ETA = "position bias: position r is looked at with propensity r^-eta"


@dataclass(frozen=True, kw_only=True)
class ImportSettings(Settings):
    """Options of import, besides --input."""

    output: str | None = option(
        None,
        "click database to write; without --append, a copy of the one it replaces is kept in the folder replaced beside it",
    )
    append: bool = option(False, "add to the database instead of replacing it")
    eta: float | None = option(
        None, f"{_ETA}; default: that of the database (--append or --input), otherwise 1", low=0, high=10
    )


@dataclass(frozen=True, kw_only=True)
class LogSettings(Settings):
    """The option of all verbs that read a database."""

    log: str | None = option(None, "click database to read")


@dataclass(frozen=True, kw_only=True)
class ExportSettings(LogSettings):
    """Options of export."""

    output: str | None = option(None, "log file to write, as JSON lines")


@dataclass(frozen=True, kw_only=True)
class AggregateSettings(LogSettings):
    """Options of aggregate."""

    eta: float | None = option(None, _ETA, low=0, high=10)


@dataclass(frozen=True, kw_only=True)
class StatsSettings(LogSettings):
    """Options of stats."""

    top: int = option(10, "number of most clicked queries to list", low=0)


@dataclass(frozen=True, kw_only=True)
class PairsSettings(LogSettings):
    """Options of pairs, besides --query."""

    kind: str = option("shown", "how preferences are derived from clicks", choices=KINDS)
    limit: int = option(20, "largest number of pairs per query", low=1)
    corrected: bool = option(False, "correct for position bias")
