"""Features of a query's candidates from a recipe: a list of names such as `bm25:k1=2,b=0.75,field=title` or `klsa:z=10`.

A recipe is plain data, is saved with a model and means the same on every index. What a name may be:

- `first`: the first stage's score; `bm25`, `vsm`, `dirichlet`, `jm`, `cosine`, ...: any kernel that compares queries with
  documents, on any `field`
- `rm3`, `rocchio`: BM25 of the query that Anserini's feedback makes
- `top`: the mean document kernel (cosine) to the first stage's best `docs` documents
- `votes`: documents that were relevant to similar training queries
- any reranker with its options: `klsa:z=10`, `mslm:mix=1`, `pert:alpha=0.5`
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.term_scores import term_scores
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.feature_kinds import (
    Feature,
    FieldSettings,
    First,
    KernelFeature,
    MethodFeature,
    RM3Feature,
    RocchioFeature,
    Top,
    Votes,
)
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.training_memory import Recollection

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class BM25FeatureSettings(FieldSettings):
    """Parameters of the feature `bm25`."""

    owner: ClassVar[str] = "bm25"

    k1: float = option(0.9, "k1", low=0)
    b: float = option(0.4, "b", low=0, high=1)


@dataclass(frozen=True, kw_only=True)
class DirichletFeatureSettings(FieldSettings):
    """Parameters of the feature `dirichlet`."""

    owner: ClassVar[str] = "dirichlet"

    mu: float = option(1000.0, "mu", low=1e-9)


@dataclass(frozen=True, kw_only=True)
class JelinekMercerFeatureSettings(FieldSettings):
    """Parameters of the feature `jm`."""

    owner: ClassVar[str] = "jm"

    lam: float = option(0.1, "lambda", low=1e-9, high=1)


KERNEL_SETTINGS: dict[str, type[FieldSettings]] = {
    "bm25": BM25FeatureSettings,
    "dirichlet": DirichletFeatureSettings,
    "jm": JelinekMercerFeatureSettings,
    "vsm": FieldSettings,
    "linear": FieldSettings,
    "cosine": FieldSettings,
}
PLAIN: dict[str, type[Feature[Any]]] = {
    "first": First,
    "rm3": RM3Feature,
    "rocchio": RocchioFeature,
    "top": Top,
    "votes": Votes,
}


def known_features() -> list[str]:
    """The names that a recipe may use."""
    return [*PLAIN, *KERNEL_SETTINGS, *(name for name, method in registry.methods().items() if not method.fuses)]


@dataclass(frozen=True)
class Spec:
    """A feature's name taken apart: what it is, and its checked parameters."""

    text: str
    kind: str
    settings: Settings


def parse(text: str, owner: str = "--fusion.features") -> Spec:
    """Takes a feature's name apart; refuses what doesn't exist."""
    kind, _, tail = text.strip().partition(":")
    given = {}
    for part in filter(None, tail.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"{owner}: {text!r}: {part!r} should read NAME=VALUE")
        given[key.strip()] = value.strip()
    return Spec(text.strip(), kind, _settings_type(kind, owner).of(given))


def _settings_type(kind: str, owner: str) -> type[Settings]:
    if kind in PLAIN:
        return PLAIN[kind].settings_type
    if kind in KERNEL_SETTINGS:
        return KERNEL_SETTINGS[kind]
    method = registry.methods().get(kind)
    if method is None or method.fuses:
        raise OptionError(f"{owner}: unknown feature {kind!r}; known: {', '.join(known_features())}")
    return method.settings


def parse_recipe(text: str, owner: str = "--fusion.features") -> tuple[str, ...]:
    """A recipe from a command line: features separated by spaces or semicolons. Each is checked."""
    names = tuple(dict.fromkeys(text.replace(";", " ").split()))
    if not names:
        raise OptionError(f"{owner}: names no feature")
    for name in names:
        parse(name, owner)
    return names


def build(spec: Spec, index: OpenedIndex, model: Model, threads: int = 1) -> Feature[Any]:
    """The feature that a name describes, ready for one index."""
    if spec.kind in PLAIN:
        return PLAIN[spec.kind](index, spec.settings, model, threads)
    if spec.kind in KERNEL_SETTINGS:
        assert isinstance(spec.settings, FieldSettings)
        return KernelFeature(spec.kind, index, spec.settings, model, threads)
    return MethodFeature(registry.method(spec.kind), index, spec.settings, model, threads)


class Features:
    """A recipe at work on one index: candidates from the union of its sources, and their table of features."""

    def __init__(
        self,
        index: OpenedIndex,
        recipe: Sequence[str],
        *,
        sources: Sequence[str] = (),
        model: Model = BM25Model(),  # noqa: B008  an immutable value
        threads: int = 1,
        owner: str = "--fusion.features",
        recollection: Recollection | None = None,
    ) -> None:
        self.index, self.model, self.recipe = index, model, tuple(recipe)
        specs = {name: parse(name, owner) for name in (*recipe, *sources)}
        made = {name: build(spec, index, model, threads) for name, spec in specs.items()}
        for feature in made.values():
            if isinstance(feature, Votes):
                feature.recollection = recollection
        self.features = [made[name] for name in recipe]
        self.sources = [made[name] for name in sources]
        for name in sources:
            if not made[name].sources:
                raise OptionError(f"{owner.replace('features', 'sources')}: {name!r} brings no candidates of its own")

    def pool(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[Candidates]:
        """The union of the lists' and the sources' best `depth` documents, in the first stage's order.

        A document that the first stage didn't list gets its exact score under the first stage's model, at most that of the
        list's last one: lists of an expanded query or a run file are not explained by the model.
        """
        found = [source.found(queries, lists, depth) for source in self.sources]
        forward, pools = self.index.forward, []
        for place, (query, own) in enumerate(zip(queries, lists, strict=True)):
            own = Candidates(own.docs[:depth], own.scores[:depth])
            others = [one[place] for one in found]
            new = np.setdiff1d(np.concatenate(others), own.docs).astype(np.int32) if others else own.docs[:0]
            if not len(new) or not own.depth:
                pools.append(own)
                continue
            parts = term_scores(forward, self.model, forward.term_ids(query.terms), query.weights, new)
            exact = np.minimum(parts.sum(axis=1, dtype=np.float64), float(own.scores[-1]))
            order = np.lexsort((forward.docid_rank[new], -exact))
            pools.append(Candidates(np.concatenate([own.docs, new[order]]), np.concatenate([own.scores, exact[order]])))
        return pools

    def tables(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[Floats]:
        """The features of each query's candidates, shape (candidates, features)."""
        pools = [Pool(self.index, query, found) for query, found in zip(queries, candidates, strict=True)]
        columns = [feature.values(pools) for feature in self.features]
        return [np.column_stack([column[place] for column in columns]) for place in range(len(queries))]
