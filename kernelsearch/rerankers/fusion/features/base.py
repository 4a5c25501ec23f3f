"""What a feature is: the base classes, and the context that features are computed with."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.feedback import FeedbackExpander
from kernelsearch.kernels.ranking_models import BM25Query
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.pool import CandidateField, Pool
from kernelsearch.rerankers.fusion.training_queries import TrainingVotes
from kernelsearch.vectors.truncation import reliability

Floats = NDArray[np.float64]

#: What a feature is evidence for: that the document matches the query, that it is like documents which are taken for relevant
#: ones, or that one document is far above the others.
MATCH, FEEDBACK, CERTAINTY = "match", "feedback", "certainty"
#: What most features are made of.
WORDS = "words"

#: The parameters of a feature.
P = TypeVar("P", bound=Settings)
#: The parameters of a feature of one field.
F = TypeVar("F", bound="FieldSettings")


@dataclass(frozen=True, kw_only=True)
class FieldSettings(Settings):
    """Parameters of a feature of one field."""

    field: str = option("contents", "indexed field whose text the feature is computed on")


@dataclass(frozen=True)
class FeatureContext:
    """What features are computed with: the index, the first stage's ranking model, the number of threads for searches, the
    votes of training queries where there are any, and run files by name."""

    index: OpenedIndex
    model: Model
    threads: int = 1
    training_votes: TrainingVotes | None = None
    runs: Mapping[str, str] = dataclass_field(default_factory=dict)
    #: Features that others are built on, by name, so that they are made once. Features refer to this context: without weak
    #: references, their maps would stay until Python collects cycles.
    shared: WeakValueDictionary[str, Feature[Any]] = dataclass_field(default_factory=WeakValueDictionary)
    used_runs: set[str] = dataclass_field(default_factory=set)  #: names of the run files that a feature has read
    _searches: dict[BM25Model, FeedbackSearch] = dataclass_field(default_factory=dict)
    _reliabilities: dict[str, float] = dataclass_field(default_factory=dict)

    @cached_property
    def expander(self) -> FeedbackExpander:
        """Feedback on the index's forward index."""
        return FeedbackExpander(self.index.forward)

    def reliability(self, vectors: str) -> float:
        """The factor for the `vectors` of that name (`kernelsearch.vectors.truncation`), computed once for all features."""
        if vectors not in self._reliabilities:
            documents = self.index.vectors(vectors).documents
            self._reliabilities[vectors] = reliability(documents, self.index.forward.lengths, self.index.forward.live)
        return self._reliabilities[vectors]

    def feedback_search(self, model: BM25Model, depth: int) -> FeedbackSearch:
        """The search for at least `depth` feedback documents that all features with the same ranking model share."""
        search = self._searches.setdefault(model, FeedbackSearch(self.index, model, self.threads))
        search.deepen(depth)
        return search


class FeedbackSearch:
    """The best `depth` documents of `index` by BM25 (`model`), searched with `threads` threads.

    A thread's last batch is cached: features share it.
    """

    def __init__(self, index: OpenedIndex, model: BM25Model, threads: int) -> None:
        self.index, self.model, self.threads, self.depth = index, model, threads, 0
        self._cache = threading.local()

    def deepen(self, depth: int) -> None:
        """Makes later searches return at least `depth` documents."""
        self.depth = max(self.depth, depth)

    def lists(self, queries: list[Query], depth: int) -> list[Candidates]:
        """The best `depth` documents of each of `queries`; at most the `depth` of the search."""
        last_queries, lists = getattr(self._cache, "last", ([], []))
        if last_queries != queries:
            lists = self.index.lucene.search(queries, self.depth, model=self.model, threads=self.threads)
            self._cache.last = queries, lists
        return [ranked.top(depth) for ranked in lists]


class Feature(ABC, Generic[P]):
    """One column of the table of features. `retrieves` says whether it can bring candidates of its own.

    `positional` is the parameter whose name may be left out, as in `dense:minilm`; it is then all that follows the colon.

    In explanations, `meaning` is what it measures ("": not known), `role` what it is evidence for (MATCH, FEEDBACK or
    CERTAINTY), and `evidence` what it is made of.

    Made from its `settings` and the `context` that all features of a recipe share.
    """

    settings_type: ClassVar[type[Settings]] = Settings
    positional: ClassVar[str | None] = None
    retrieves: ClassVar[bool] = False
    meaning: str = ""
    role: str = MATCH
    evidence: str = WORDS

    def __init__(self, settings: P, context: FeatureContext) -> None:
        self.settings, self.context, self.index = settings, context, context.index

    @abstractmethod
    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        """The feature's values for each of `pools`, each of shape (candidates,)."""

    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]] | None:
        """For a feature that is BM25 of a weighted query: for each of `pools`, a field's name and the query in its terms.

        Values of such features are computed together. None for other features.
        """
        return None

    def strengths(self, pools: Sequence[Pool]) -> Floats:
        """What the feature's normalised values are multiplied by, shape (pools,): 1 unless it estimates its reliability."""
        return np.ones(len(pools))

    def retrieve(self, queries: Sequence[Query], lists: Sequence[Candidates], depth: int) -> list[NDArray[np.int32]]:
        """The rows of the best `depth` documents for each of `queries` by this feature, from the whole index.

        `lists` are the queries' lists of the first stage. Raises OptionError for a feature that doesn't retrieve.
        """
        raise OptionError(f"feature {type(self).__name__}: brings no candidates of its own")


class BM25Feature(Feature[P]):
    """A feature that is BM25 of a weighted query."""

    @abstractmethod
    def bm25_queries(self, pools: Sequence[Pool]) -> list[tuple[str, BM25Query]]:
        """For each of `pools`, a field's name and the query in its terms."""

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        return [pool.bm25([query])[0] for pool, query in zip(pools, self.bm25_queries(pools), strict=True)]


class PoolFeature(Feature[P]):
    """A feature that is computed for one query at a time."""

    def values(self, pools: Sequence[Pool]) -> list[Floats]:
        return [self.pool_values(pool) for pool in pools]

    @abstractmethod
    def pool_values(self, pool: Pool) -> Floats:
        """The feature's values for one pool, shape (candidates,)."""


class FieldFeature(PoolFeature[F]):
    """A feature of one field; on an index that doesn't have the field it is 0 for all documents."""

    def __init__(self, settings: F, context: FeatureContext) -> None:
        super().__init__(settings, context)
        name = settings.field
        self.absent = name != "contents" and self.index.lucene.field_statistics(name).documents == 0

    def pool_values(self, pool: Pool) -> Floats:
        return np.zeros(pool.depth) if self.absent else self.field_values(pool, pool.field(self.settings.field))

    @abstractmethod
    def field_values(self, pool: Pool, field: CandidateField) -> Floats:
        """The feature's values for one pool from a field that the index has, shape (candidates,)."""
