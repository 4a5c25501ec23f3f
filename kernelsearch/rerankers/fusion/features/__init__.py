"""The features of a fusion: what a name in a recipe means (`spec`), each kind of feature, and their table (`table`)."""

from kernelsearch.rerankers.fusion.features.spec import (
    FEATURES,
    SOURCES,
    FeatureSpec,
    known_features,
    of_kind,
    parse,
    parse_recipe,
)
from kernelsearch.rerankers.fusion.features.table import Features

__all__ = ["FEATURES", "SOURCES", "FeatureSpec", "Features", "known_features", "of_kind", "parse", "parse_recipe"]
