"""Features of a query's candidates from a recipe: a list of names such as `bm25:k1=2,b=0.75,field=title` or `klsa:z=10`.

A recipe is plain data, is saved with a model and means the same on every index. What a name may be:

- `first`: the first stage's score; `bm25`, `vsm`, `dirichlet`, `jm`, `cosine`, `linear`: a kernel between query and documents,
  on any `field`
- `rm3`, `rocchio`: BM25 of the query as Anserini's feedback expands it
- `rm`: BM25 of the query expanded by a relevance model whose documents are weighted by their posterior
- `top`: the mean document kernel (cosine) to the first stage's best `docs` documents
- `posterior`: the probability of the first stage's best documents, which is high for one that scores far above the others
- `parts`: BM25 that finds the words of a query inside identifiers of source code
- `votes`: documents that were relevant to similar training queries
- `dense:NAME`: the inner product with the vectors of that name; `dense-rm:NAME`: with the posterior mean of the nearest ones
- `hybrid:NAME/FEATURE`: a feature of feedback whose documents are the best by first stage and vectors NAME together
- `read:MATCH/FEATURE`: a feature of feedback whose documents are the first stage's best in the order of another feature
- `run:FILE`: the scores of a run file; `run:NAME` with --fusion.runs NAME=FILE
- any reranker with its options: `klsa:z=10`, `mslm:mix=1`, `pert:alpha=0.5`
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.sequences import difference
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import BM25Query, first_stage_scores
from kernelsearch.kernels.registry import plugins as kernel_plugins
from kernelsearch.learning.ranking.lists import Lists, normalise_features, zscores
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.evidence import DenseFeature, DenseFeatureSettings, DenseRelevanceModel, RunFeature
from kernelsearch.rerankers.fusion.feature import CERTAINTY, Feature, FeatureContext, FieldSettings, P
from kernelsearch.rerankers.fusion.feature_kinds import (
    BM25FeatureSettings,
    DirichletFeatureSettings,
    First,
    JelinekMercerFeatureSettings,
    KernelFeature,
    MethodFeature,
    Votes,
)
from kernelsearch.rerankers.fusion.feedback_features import Posterior, RelevanceModel, RM3Feature, RocchioFeature, Top
from kernelsearch.rerankers.fusion.part_features import Parts
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.training_queries import TrainingVotes

Floats = NDArray[np.float64]

#: The first stage's best documents that the feature `read` orders.
READ = 50

#: Weight of the vectors' z-scores beside the first stage's in the order of the feature `hybrid`; docs/reproductions/vectors.md
#: says how it was chosen.
HYBRID_VECTORS = 1.25

#: Features that are kernels between query and documents, with their parameters.
KERNEL_SETTINGS: dict[str, type[FieldSettings]] = {
    "bm25": BM25FeatureSettings,
    "dirichlet": DirichletFeatureSettings,
    "jm": JelinekMercerFeatureSettings,
    "vsm": FieldSettings,
    "linear": FieldSettings,
    "cosine": FieldSettings,
}


class ReorderedFeature(Feature[P]):
    """A feature, `feature`, of the candidates in another order: for those that take the best candidates for relevant ones."""

    positional = "feature"
    feature: Feature[Any]

    @abstractmethod
    def ranked(self, pool: Pool) -> tuple[Pool, NDArray[np.int64]]:
        """The pool in the other order, and the places of its candidates in `pool`."""

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        places = [self.ranked(pool) for pool in pools]
        out = []
        for values, (_, order) in zip(self.feature.values([pool for pool, _ in places]), places, strict=True):
            back = np.empty(len(order))
            back[order] = values
            out.append(back)
        return out

    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]] | None:
        return self.feature.bm25_queries([self.ranked(pool)[0] for pool in pools])  # scores don't depend on the order


@dataclass(frozen=True, kw_only=True)
class HybridSettings(Settings):
    """Parameters of the feature `hybrid`."""

    owner: ClassVar[str] = "hybrid"

    feature: str | None = option(None, "vectors and the feature that takes the best documents by both: NAME/FEATURE")


class HybridFeature(ReorderedFeature[HybridSettings]):
    """A feature for which words and vectors rank the candidates together: by the weighted sum of their z-scores.

    For features that take the best candidates for relevant ones (`rm`, `top`, `klsa`). The first stage's scores and the inner
    products of vectors are z-scored within the pool; vectors that have seen a part of the texts weigh less.
    """

    settings_type = HybridSettings
    evidence = "feedback by both"

    def __init__(self, settings: HybridSettings, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self.vectors, _, inner = (settings.feature or "").partition("/")
        if not self.vectors or not inner:
            raise OptionError(f"feature hybrid: {settings.feature!r} should read NAME/FEATURE, as in hybrid:minilm/rm")
        self.dense = DenseFeature(DenseFeatureSettings(vectors=self.vectors), context)
        self.weight = HYBRID_VECTORS * context.reliability(self.vectors)
        self.feature = build(parse(inner), context)
        self.role = self.feature.role
        self.meaning = f"{self.feature.meaning}, by words and vectors" if self.feature.meaning else ""

    def ranked(self, pool: Pool) -> tuple[Pool, NDArray[np.int64]]:
        """The pool by words and vectors together, and the places of its candidates in `pool`."""

        def together() -> Floats:
            products = self.dense.values([pool])[0]
            return np.asarray(zscores(pool.candidates.scores) + self.weight * zscores(products), dtype=np.float64)

        return pool.reordered(self.vectors, together)


@dataclass(frozen=True, kw_only=True)
class ReadSettings(Settings):
    """Parameters of the feature `read`."""

    owner: ClassVar[str] = "read"

    feature: str | None = option(None, "the feature that orders the best documents, and the one that takes them: MATCH/FEATURE")


class ReadFeature(ReorderedFeature[ReadSettings]):
    """A feature for which another one, the match, orders the first stage's best READ candidates; the others follow.

    For features that take the best candidates for relevant ones (`rm`, `top`, `klsa`), and a match that takes too long for the
    whole pool. Its scores get the mean and the deviation of the first stage's, so that the posterior over them is as sharp.
    """

    settings_type = ReadSettings

    def __init__(self, settings: ReadSettings, context: FeatureContext) -> None:
        super().__init__(settings, context)
        self.match_name, _, inner = (settings.feature or "").partition("/")
        if not self.match_name or not inner:
            raise OptionError(f"feature read: {settings.feature!r} should read MATCH/FEATURE, as in read:mslm/rm")
        self.match = context.shared.get(self.match_name) or build(parse(self.match_name), context)
        context.shared[self.match_name] = self.match
        self.feature = build(parse(inner), context)
        self.role, self.meaning = self.feature.role, self.feature.meaning
        if self.role == CERTAINTY:
            self.meaning = "how far the match puts it above the others"

    def ranked(self, pool: Pool) -> tuple[Pool, NDArray[np.int64]]:
        """The pool with its first READ candidates in the order of the match, and the places of its candidates in `pool`."""

        def matched() -> Floats:
            scores = np.array(pool.candidates.scores, dtype=np.float64)
            if len(scores):
                head = Pool(pool.index, pool.query, pool.candidates.top(READ))
                mean, deviation = scores[:READ].mean(), scores[:READ].std()
                scores[:READ] = mean + deviation * zscores(self.match.values([head])[0])
                scores[READ:] = np.minimum(scores[READ:], scores[:READ].min())
            return scores

        return pool.reordered(f"read:{self.match_name}", matched)


#: Features that are neither kernels nor rerankers.
OTHER_KINDS: dict[str, type[Feature[Any]]] = {
    "first": First,
    "rm": RelevanceModel,
    "rm3": RM3Feature,
    "rocchio": RocchioFeature,
    "posterior": Posterior,
    "top": Top,
    "votes": Votes,
    "dense": DenseFeature,
    "dense-rm": DenseRelevanceModel,
    "hybrid": HybridFeature,
    "read": ReadFeature,
    "run": RunFeature,
    "parts": Parts,
}


def known_features() -> list[str]:
    """The names that a recipe may use, those of installed plugins included."""
    methods = [name for name, method in registry.methods().items() if not method.fuses]
    return list(dict.fromkeys([*OTHER_KINDS, *KERNEL_SETTINGS, *kernel_plugins(), *methods]))


@dataclass(frozen=True)
class FeatureSpec:
    """A parsed feature: its text in the recipe, the kind of feature, and its checked parameters."""

    text: str
    kind: str
    settings: Settings


#: The options of recipes.
FEATURES, SOURCES = Flag("features", "fusion"), Flag("sources", "fusion")


def parse(text: str, option: Flag = FEATURES) -> FeatureSpec:
    """Parses `text`, a feature as KIND or KIND:NAME=VALUE,...; raises OptionError, which names `option`, for unknown ones."""
    kind, _, tail = text.strip().partition(":")
    positional = OTHER_KINDS[kind].positional if kind in OTHER_KINDS else None
    if positional is not None and tail and not tail.startswith(f"{positional}="):
        return FeatureSpec(text.strip(), kind, _settings_type(kind, option).of({positional: tail}))
    parameters = {}
    for part in filter(None, tail.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise OptionError(f"{text!r}: {part!r} should read NAME=VALUE", option=option)
        parameters[key.strip()] = value.strip()
    return FeatureSpec(text.strip(), kind, _settings_type(kind, option).of(parameters))


def _settings_type(kind: str, option: Flag) -> type[Settings]:
    if kind in OTHER_KINDS:
        return OTHER_KINDS[kind].settings_type
    if kind in KERNEL_SETTINGS:
        return KERNEL_SETTINGS[kind]
    if kind in kernel_plugins():
        return FieldSettings
    method = registry.methods().get(kind)
    if method is None or method.fuses:
        raise OptionError(f"unknown feature {kind!r}; known: {', '.join(known_features())}", option=option)
    return method.settings


def parse_recipe(text: str, option: Flag = FEATURES) -> tuple[str, ...]:
    """The names of the recipe `text`, separated by spaces or semicolons, without repetitions.

    Raises OptionError, which names `option`, for an empty recipe and for a feature that doesn't exist.
    """
    names = tuple(dict.fromkeys(text.replace(";", " ").split()))
    if not names:
        raise OptionError("names no feature", option=option)
    for name in names:
        parse(name, option)
    return names


def build(spec: FeatureSpec, context: FeatureContext) -> Feature[Any]:
    """The feature that `spec` describes, ready for the index of `context`."""
    if spec.kind in OTHER_KINDS:
        return OTHER_KINDS[spec.kind](spec.settings, context)
    if spec.kind in KERNEL_SETTINGS or spec.kind in kernel_plugins():
        assert isinstance(spec.settings, FieldSettings)
        return KernelFeature(spec.kind, spec.settings, context)
    return MethodFeature(registry.method(spec.kind), spec.settings, context)


class Features:
    """A recipe on one index: candidates from the union of its sources, and their table of features.

    Parameters
    ----------
    index : the opened index
    recipe : the features by name, in the order of the table's columns
    sources : features by name that bring candidates besides the first stage
    model : the first stage's ranking model
    threads : threads for searches
    option : the option that error messages name
    training_votes : the votes of training queries for the feature `votes`; None: no votes
    runs : files by name for the feature `run`
    shared : features by name to use instead of new ones: the `shared` of another recipe on the same index and first stage
    """

    def __init__(
        self,
        index: OpenedIndex,
        recipe: Sequence[str],
        *,
        sources: Sequence[str] = (),
        model: Model = BM25Model(),  # noqa: B008  an immutable value
        threads: int = 1,
        option: Flag = FEATURES,
        training_votes: TrainingVotes | None = None,
        runs: Mapping[str, str] | None = None,
        shared: Mapping[str, Feature[Any]] | None = None,
    ) -> None:
        self.index, self.model, self.recipe = index, model, tuple(recipe)
        context = FeatureContext(index, model, threads, training_votes, runs or {}, WeakValueDictionary(shared or {}))
        self.shared = context.shared
        specs = {name: parse(name, option) for name in (*recipe, *sources)}
        by_name = {}
        for name, spec in specs.items():
            by_name[name] = context.shared[name] = context.shared.get(name) or build(spec, context)
        for name in context.runs:
            if name not in context.used_runs:
                raise OptionError(
                    f"{name}: has no effect, because no feature of the model is run:{name}", option=Flag("runs", "fusion")
                )
        self.features = [by_name[name] for name in recipe]
        self.sources = [by_name[name] for name in sources]
        for name in sources:
            if not by_name[name].retrieves:
                raise OptionError(f"{name!r} brings no candidates of its own", option=SOURCES if option == FEATURES else option)

    def pool(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[Candidates]:
        """The union of the best `depth` documents of the first stage and of each source, in the first stage's order.

        `lists` are those of `queries` by the first stage; the pools are in their order.

        A document that the first stage didn't list gets its exact score under the first stage's model, but at most that of the
        list's last document: the model doesn't explain the scores of lists from an expanded query or a run file. Where the
        first stage found nothing, documents of equal score keep the order in which the sources found them.
        """
        retrieved = [source.retrieve(queries, lists, depth) for source in self.sources]
        forward, pools = self.index.forward, []
        for number, (query, first) in enumerate(zip(queries, lists, strict=True)):
            listed = Candidates(first.docs[:depth], first.scores[:depth])
            others = [docs[number] for docs in retrieved]
            new = difference(np.concatenate(others), listed.docs) if others else listed.docs[:0]
            if not len(new):
                pools.append(listed)
                continue
            scores = first_stage_scores(forward, self.model, query, new)
            exact = scores.astype(np.float64)
            if listed.depth:
                exact = np.minimum(exact, float(listed.scores[-1]))
                order = np.lexsort((forward.docid_rank[new], -exact))
            else:
                order = np.lexsort((forward.docid_rank[new], best_ranks(new, others), -exact))
            docs, scores = np.concatenate([listed.docs, new[order]]), np.concatenate([listed.scores, exact[order]])
            pools.append(Candidates(docs, scores))
        return pools

    def tables(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[Floats]:
        """The features of the `candidates` of each of `queries`, shape (candidates, features)."""
        return self._tables(self._pools(queries, candidates))

    def normalised_tables(self, queries: Sequence[Query], candidates: Sequence[Candidates], kind: str) -> list[Floats]:
        """As `tables` of `queries` and `candidates`, normalised within the query and times the features' strengths.

        `kind` of normalisation is "z", "minmax" or "none".
        """
        pools = self._pools(queries, candidates)
        strengths = np.column_stack([feature.strengths(pools) for feature in self.features])
        return [
            normalise_features(table, Lists.single(len(table)), kind) * strength
            for table, strength in zip(self._tables(pools), strengths, strict=True)
        ]

    def _pools(self, queries: Sequence[Query], candidates: Sequence[Candidates]) -> list[Pool]:
        return [Pool(self.index, query, listed) for query, listed in zip(queries, candidates, strict=True)]

    def _tables(self, pools: Sequence[Pool]) -> list[Floats]:
        bm25 = {place: queries for place, feature in enumerate(self.features) if (queries := feature.bm25_queries(pools))}
        others = {place: feature.values(pools) for place, feature in enumerate(self.features) if place not in bm25}
        tables = []
        for number, pool in enumerate(pools):
            together = pool.bm25([queries[number] for queries in bm25.values()])
            values = dict(zip(bm25, together, strict=True)) | {place: column[number] for place, column in others.items()}
            columns = [values[place] for place in range(len(self.features))]
            # A feature is contiguous in memory: normalising and adding up features takes a third of the time.
            tables.append(np.array(columns).T)
        return tables


def best_ranks(docs: NDArray[np.int32], lists: Sequence[NDArray[np.int32]]) -> NDArray[np.int64]:
    """The best rank (from 0) of each document among several lists of rows; `docs` is ascending and holds all of them."""
    ranks = np.full(len(docs), np.iinfo(np.int64).max)
    for listed in lists:
        np.minimum.at(ranks, np.searchsorted(docs, listed), np.arange(len(listed)))
    return ranks
