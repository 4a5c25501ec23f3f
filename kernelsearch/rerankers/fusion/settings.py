"""Options of `fusion`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option

#: The features of the default recipe (docs/fusion.md says which belong in it and why), besides those of `auto`.
RECIPE = (
    "first mslm bm25:k1=1.2,b=0.75 bm25:k1=2,b=0.75 dirichlet:mu=1000 cosine bm25:field=title cosine:field=title "
    "rm rm3 rm3:terms=40 rocchio pert top:docs=1 top:docs=5 top:docs=20,sharpness=5 "
    "klsa:lambda=1 klsa:z=1,lambda=1 klsa:z=5,lambda=1 klsa:z=20,lambda=1 votes:power=4,fade=1.5"
)
#: The features that add candidates by default.
SOURCES = "rm rm3 votes:power=4,fade=1.5"


@dataclass(frozen=True, kw_only=True)
class DepthSettings(Settings):
    """The option that `fusion` and `auto` have in common."""

    depth: int = option(1000, "number of candidates per source that are fused", low=1)


@dataclass(frozen=True, kw_only=True)
class FusionSettings(DepthSettings):
    """Options of `fusion` in search."""

    owner: ClassVar[str] = "fusion"

    model: str | None = option(None, "folder of the trained model; default: the one beside the index", names="file")
    runs: tuple[str, ...] | None = option(
        None, "run files for the features run:NAME, as NAME=FILE, separated by commas", names="file"
    )


@dataclass(frozen=True, kw_only=True)
class FusionFitSettings(Settings):
    """Options of `fusion` in train."""

    owner: ClassVar[str] = "fusion"

    features: str = option(RECIPE, "recipe: the features to fuse, separated by spaces")
    sources: str = option(
        SOURCES, "features that add candidates to those of the first stage, separated by spaces; none: the first stage alone"
    )
    vectors: str | None = option(
        None,
        "name of the vectors to add to the default recipe; default: --vectors.name, or the only ones of the index if "
        "queries have vectors too; none: words alone",
        names="vectors",
        requests=("none",),
    )
    learner: str = option(
        "best",
        "learner of the feature weights: net, simlistmkl or combsum; best: cross-validation over the training topics "
        "chooses the first stage, auto's weights, mslm alone, or net regularised towards auto's weights",
    )
    runs: tuple[str, ...] | None = option(
        None, "run files for the features run:NAME, as NAME=FILE, separated by commas", names="file"
    )
    depth: int = option(1000, "number of candidates per source in training", low=1)
    negatives: int = option(200, "number of documents not judged relevant that are drawn per query", low=1)
    folds: int = option(5, "number of cross-validation folds with --fusion.learner best", low=2)
    random_state: int = option(0, "seed for random draws, the folds and the learner", low=0)
