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
        "max, mean or sum over windows, global matching, or interest points",
        choices=("max", "mean", "sum", "global", "points"),
    )
    divergence: str = option("js", "Jensen-Shannon, or Kullback-Leibler from query to document", choices=("js", "kl"))
    scales: tuple[float, ...] | None = option(
        None, "scales along positions, inf is the bag of words; default 8 (points: 1,2,4,8)", low=0
    )
    semantic: tuple[float, ...] = option((0.7,), "scales along words, one for all levels or one a level; 0 is off", low=0)
    one_scale: bool = option(False, "smooth words at the scale of positions, as the paper does")
    width: int = option(0, "positions in a window; 0: two scales to each side", low=0)
    weighting: str = option("idf", "mass of a word before smoothing", choices=("idf", "none"))
    eta: float = option(0.1, "background smoothing", low=1e-06)
    rows: int = option(256, "words told apart a query, its own and neighbours", low=1)


@dataclass(frozen=True, kw_only=True)
class GraphSettings(Settings):
    """How the graph of co-occurring words is built."""

    owner: ClassVar[str] = "mslm"

    neighbours: int = option(20, "nearest neighbours a word", low=1)
    window: int = option(10, "words this near each other co-occur", low=1)
    min_count: int = option(3, "pairs seen less often are no neighbours", low=1)
    common: float = option(0.25, "words in a larger share of the documents have no neighbours", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class MultiScaleSettings(MatchingSettings):
    """Options of `mslm` in search."""

    mix: float = option(0.5, "share of this method against the first stage", low=0, high=1)
    weights: str = option("auto", "level weights; auto: learned ones where they fit", choices=("auto", "learned", "uniform"))
    model: str | None = option(None, "a trained graph's folder; default: beside the index")


@dataclass(frozen=True, kw_only=True)
class MultiScaleFitSettings(MatchingSettings, GraphSettings):
    """Options of `mslm` in train."""

    graph: str = option("cooccurrence", "where related words come from", choices=("cooccurrence", "vectors", "wordnet"))
    source: str | None = option(None, "the file of word vectors (text form), or WordNet's dict folder")
    memory: int | None = option(
        None, "co-occurring pairs held at a time; default: 20,000,000, or what --memory-limit allows", low=1000
    )
    hits: int = option(100, "candidates a training query, where level weights are learned", low=2)
