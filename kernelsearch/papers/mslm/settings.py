"""Options of `mslm-paper`; the defaults are what the paper prints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option
from kernelsearch.rerankers.mslm.settings import GraphSettings, MultiScaleSettings


@dataclass(frozen=True, kw_only=True)
class MatchingSettings(Settings):
    """How texts are matched with a query."""

    owner: ClassVar[str] = "mslm-paper"

    mode: str = option(
        "sum",
        "how a level matches: max, mean or sum over windows, the text as a whole (global), or interest points",
        choices=("max", "mean", "sum", "global", "points"),
    )
    divergence: str = option(
        "kl",
        "divergence of window and query: Jensen-Shannon (js), or Kullback-Leibler from query to document (kl)",
        choices=("js", "kl"),
    )
    scales: tuple[float, ...] = option(
        (0.0, 1.0, 2.0, 4.0, math.inf),
        "scales of smoothing along positions, one per level; inf is the bag of words, which interest points leave out",
        low=0,
        unbounded=True,
        request_high=100,
    )
    semantic: tuple[float, ...] = option(
        (),
        "scales of smoothing along related words, one for all levels or one per level; 0: none; default: those along positions",
        low=0,
        high=math.inf,
        unbounded=True,
        request_high=100,
    )
    width: int = option(
        5, "positions in a window; 0: two scales to each side of its middle", low=0, high=4001, request_high=401
    )
    step: int = option(
        1, "distance in positions of the columns that windows are compared at; 0: the scale, 1: every column", low=0, high=1000
    )
    columns: int = option(
        8,
        "number of columns that --mslm-paper.mode global interpolates texts to",
        low=1,
        high=256,
        request_high=64,
    )
    normalise: str = option(
        "none",
        "normalisation of a level's similarities per query before levels are weighted; none: Eqs. 12 and 13 as printed",
        choices=("z", "none"),
    )
    weighting: str = option("none", "weight of a word before smoothing", choices=("idf", "none"))
    eta: float = option(0.1, "weight of the collection model in windows (background smoothing)", low=1e-06)
    rows: int = option(256, "largest number of words per query, including related words", low=1, high=4096, request_high=512)


@dataclass(frozen=True, kw_only=True)
class PaperSettings(MatchingSettings, MultiScaleSettings):
    """Options of `mslm-paper` in search."""

    mix: float = option(1.0, "weight of mslm-paper against the first stage", low=0, high=1)
    weights: str = option(
        "auto",
        "level weights to use; auto: learned weights if they were learned with the same matching options",
        choices=("auto", "learned", "uniform"),
    )
    model: str | None = option(
        None, "folder of the trained graph; default: the one beside the index, or that of mslm", names="file"
    )


@dataclass(frozen=True, kw_only=True)
class PaperFitSettings(MatchingSettings, GraphSettings):
    """Options of `mslm-paper` in train."""

    graph: str = option("cooccurrence", "source of related words", choices=("cooccurrence", "vectors", "wordnet"))
    source: str | None = option(
        None, "file of word vectors (text format) for graph vectors, or WordNet's dict folder for wordnet", names="file"
    )
    hits: int = option(100, "number of candidates per training query for learning level weights", low=2)
