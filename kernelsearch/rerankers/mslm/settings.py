"""Options of `mslm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class LevelSettings(Settings):
    """The levels."""

    owner: ClassVar[str] = "mslm"

    scales: tuple[float, ...] = option(
        (8.0,),
        "scales of smoothing along positions, one per level; inf is the bag of words",
        low=0,
        unbounded=True,
        request_high=100,
    )


@dataclass(frozen=True, kw_only=True)
class MultiScaleSettings(LevelSettings):
    """Options of `mslm` in search."""

    mix: float = option(0.5, "weight of mslm against the first stage", low=0, high=1)
    semantic: tuple[float, ...] = option(
        (0.7,), "scales of smoothing along related words, one for all levels or one per level; 0: none", low=0, request_high=100
    )
    step: int = option(
        0, "distance in positions of the columns that windows are compared at; 0: the scale, 1: every column", low=0, high=1000
    )
    eta: float = option(0.1, "weight of the collection model in windows (background smoothing)", low=1e-06)
    model: str | None = option(None, "folder of the trained graph; default: the one beside the index", names="file")


@dataclass(frozen=True, kw_only=True)
class GraphSettings(Settings):
    """How the graph of co-occurring words is built."""

    owner: ClassVar[str] = "mslm"

    neighbours: int = option(20, "number of nearest neighbours per word", low=1)
    window: int = option(10, "distance in positions within which words co-occur", low=1)
    min_count: int = option(3, "smallest number of co-occurrences of neighbours", low=1)
    common: float = option(0.25, "largest share of the documents that a word with neighbours may occur in", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class MultiScaleFitSettings(LevelSettings, GraphSettings):
    """Options of `mslm` in train."""
