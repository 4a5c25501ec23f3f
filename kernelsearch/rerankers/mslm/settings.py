"""Options of `mslm`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class MatchingSettings(Settings):
    """How texts are matched with a query."""

    owner: ClassVar[str] = "mslm"

    mode: str = option(
        "max",
        "how a level matches: max, mean or sum over windows, the text as a whole (global), or interest points",
        choices=("max", "mean", "sum", "global", "points"),
    )
    divergence: str = option(
        "js",
        "divergence of window and query: Jensen-Shannon (js), or Kullback-Leibler from query to document (kl)",
        choices=("js", "kl"),
    )
    scales: tuple[float, ...] | None = option(
        None,
        "scales of smoothing along positions, one per level; inf is the bag of words; default: 8 (points: 1,2,4,8)",
        low=0,
        unbounded=True,
        request_high=100,
    )
    semantic: tuple[float, ...] = option(
        (0.7,), "scales of smoothing along related words, one for all levels or one per level; 0: none", low=0, request_high=100
    )
    one_scale: bool = option(False, "use the scales along positions for related words too, as in the paper")
    width: int = option(
        0, "positions in a window; 0: two scales to each side of its middle", low=0, high=4001, request_high=401
    )
    step: int = option(
        0, "distance in positions of the columns that windows are compared at; 0: the scale, 1: every column", low=0, high=1000
    )
    columns: int = option(
        8, "number of columns that --mslm.mode global interpolates texts to", low=1, high=256, request_high=64
    )
    normalise: str = option(
        "z",
        "normalisation of a level's similarities per query before levels are weighted; none: Eqs. 12 and 13 as printed",
        choices=("z", "none"),
    )
    weighting: str = option("idf", "weight of a word before smoothing", choices=("idf", "none"))
    eta: float = option(0.1, "weight of the collection model in windows (background smoothing)", low=1e-06)
    rows: int = option(256, "largest number of words per query, including related words", low=1, high=4096, request_high=512)


@dataclass(frozen=True, kw_only=True)
class GraphSettings(Settings):
    """How the graph of co-occurring words is built."""

    owner: ClassVar[str] = "mslm"

    neighbours: int = option(20, "number of nearest neighbours per word", low=1)
    window: int = option(10, "distance in positions within which words co-occur", low=1)
    min_count: int = option(3, "smallest number of co-occurrences of neighbours", low=1)
    common: float = option(0.25, "largest share of the documents that a word with neighbours may occur in", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class MultiScaleSettings(MatchingSettings):
    """Options of `mslm` in search."""

    mix: float = option(0.5, "weight of mslm against the first stage", low=0, high=1)
    weights: str = option(
        "auto",
        "level weights to use; auto: learned weights if they were learned with the same matching options",
        choices=("auto", "learned", "uniform"),
    )
    model: str | None = option(None, "folder of the trained graph; default: the one beside the index", names="file")


@dataclass(frozen=True, kw_only=True)
class MultiScaleFitSettings(MatchingSettings, GraphSettings):
    """Options of `mslm` in train."""

    graph: str = option("cooccurrence", "source of related words", choices=("cooccurrence", "vectors", "wordnet"))
    source: str | None = option(
        None, "file of word vectors (text format) for --mslm.graph vectors, or WordNet's dict folder for wordnet", names="file"
    )
    memory: int | None = option(
        None, "number of co-occurring pairs in memory at a time; default: 20,000,000, or what --memory-limit allows", low=1000
    )
    hits: int = option(100, "number of candidates per training query for learning level weights", low=2)
