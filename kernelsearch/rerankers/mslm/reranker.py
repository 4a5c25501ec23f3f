"""`mslm`: multi-scale language models match where in a document the query's words, or related ones, occur together.

Yang & Zha, "Language Pyramid and Multi-Scale Text Analysis" (CIKM 2010), Section 4.2. Each level's similarities are
z-scored over a query's candidates and added with the level weights; the sum is z-scored and mixed with the z-scored first
stage.
"""

from __future__ import annotations

import logging
import math
import tempfile
import threading
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.caching import once_per_object
from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.execution import map_in_threads
from kernelsearch.core.sequences import difference
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels import ranking_models
from kernelsearch.kernels.pyramid.compiled import WordRanges
from kernelsearch.kernels.pyramid.matching import Matcher
from kernelsearch.kernels.pyramid.query_rows import QueryRows, Scale, Texts
from kernelsearch.kernels.semantic.graph import SemanticGraph, sequences, take_ranges
from kernelsearch.learning.bem import bem_weights, preference_margins, uniform_weights
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Context, Explanation, OpenedIndex, Reranker, TrainingData
from kernelsearch.rerankers.mslm import MULTISCALE_LM
from kernelsearch.rerankers.mslm.graph import GraphArtefact, build_graph, quick_graph
from kernelsearch.rerankers.mslm.settings import GraphSettings, MultiScaleFitSettings, MultiScaleSettings

logger = logging.getLogger(__name__)

#: Tokens of a collection whose texts are kept in reading order in memory, four bytes each.
IN_MEMORY = 4_000_000

#: Candidates per judged topic that level weights are learned from.
HITS = 100
#: Words per query that are told apart, related words included.
ROWS = 256

#: What learned level weights depend on besides the settings: this way of matching, in the options of `mslm-paper`.
FORM = {
    "mode": "max", "divergence": "js", "width": 0, "columns": 8, "normalise": "z", "weighting": "idf", "rows": ROWS,
}  # fmt: skip

#: Bounds of --mslm.scales: a window is four scales wide, and every level takes its time.
WIDEST, MOST_LEVELS = 1000.0, 16


class _Scored(NamedTuple):
    """A query's rows and its similarities so far: documents in ascending order, and their levels (documents, levels)."""

    query: Query
    rows: QueryRows
    docs: NDArray[np.integer]
    levels: NDArray[np.float64]


class MultiScaleLM(Reranker[MultiScaleSettings]):
    """Multi-scale language models over a graph of related words, which `kernelsearch.train` builds."""

    method = MULTISCALE_LM

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self.scales = self.make_scales()
        self.matcher = self.make_matcher()
        self.forward = index.forward
        self.forward.require_positions()
        self.artefact: GraphArtefact | None = None
        self.graph, self.level_weights = self._load()
        self._cache = threading.local()

    def make_scales(self) -> tuple[Scale, ...]:
        """The levels that the options describe; raises OptionError where their numbers don't match."""
        return level_scales(self.settings.scales, self.settings.semantic, self.name)

    def make_matcher(self) -> Matcher:
        """How the levels are matched."""
        return Matcher(self.scales, self.settings.step)

    @property
    def limit(self) -> int:
        """The largest number of words per query that are told apart."""
        return ROWS

    def matching_options(self) -> dict[str, Any]:
        """The options that level weights depend on, as JSON has them."""
        levels = [[str(scale.spatial), str(scale.semantic)] for scale in self.scales]
        return {**FORM, "step": self.settings.step, "eta": self.settings.eta, "levels": levels}

    def graph_folder(self) -> Path:
        """Where the graph is, or would be."""
        return Path(self.settings.model) if self.settings.model else self.index.artefacts / MULTISCALE_LM.name

    def _load(self) -> tuple[SemanticGraph, NDArray[np.float64]]:
        """The graph and the level weights (levels,), learned ones where they were learned for the same matching options."""
        path, uniform = self.graph_folder(), uniform_weights(len(self.scales))
        if not self.settings.model and not path.exists():
            if all(scale.semantic == 0 for scale in self.scales):
                return SemanticGraph.empty(len(self.forward.terms)), uniform
            return quick_graph(self.index), uniform
        # Others share it as long as it is referred to.
        self.artefact = self.index.opened(GraphArtefact.load, path, self.index.fingerprint, len(self.forward.terms))
        weights = self.artefact.weights if self.artefact.learned_for == self.matching_options() else None
        return self.artefact.graph, uniform if weights is None else weights

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: MultiScaleFitSettings) -> Path:
        """Builds the graph of related words, saves it and returns its folder.

        Where topics and judgements are given, level weights (BEM, Eq. 13) are learned and saved with it.
        """
        return cls.fit_graph(index, data, settings, build_graph, HITS)

    @classmethod
    def fit_graph(
        cls, index: OpenedIndex, data: TrainingData, settings: GraphSettings, build: Callable[..., SemanticGraph], hits: int
    ) -> Path:
        """`fit` with a graph from `build`, which takes what `build_graph` takes, and weights from `hits` candidates per topic.

        Options of train that search has too are those that the weights are learned with.
        """
        if bool(data.topics) != bool(data.qrels):
            raise OptionError(
                "level weights need both ", Flag("topics"), " and ", Flag("qrels"), option=Flag("rerank", value=cls.method.name)
            )
        index.forward.require_terms()
        path, values = data.folder(index, cls.method.name), settings.to_dict()
        graph = build(index, settings, data.memory_limit, data.engine)
        logger.info("%d pairs of related words over %d words", graph.edges, graph.words)
        if not data.qrels:
            GraphArtefact(graph).save(path, values, index.fingerprint)
            return path
        searched = {option.key for option in cls.method.options}
        # What was trained before is replaced only when the weights are learned.
        with tempfile.TemporaryDirectory(prefix="kernelsearch-mslm-") as scratch:
            unweighted = Path(scratch) / "graph"
            GraphArtefact(graph).save(unweighted, values, index.fingerprint)
            reranker = cls(index, model=str(unweighted), **{key: value for key, value in values.items() if key in searched})
            weights = reranker.learn(data, hits)
        GraphArtefact(graph, weights, reranker.matching_options()).save(path, values, index.fingerprint)
        return path

    def learn(self, data: TrainingData, hits: int) -> NDArray[np.float64]:
        """BEM-MLM level weights (Eq. 13) from the best `hits` candidates of judged topics, shape (levels,).

        Weights are uniform where no level prefers relevant documents; InputError is raised where no topic has both relevant and
        other candidates.
        """
        judged = [qid for qid in data.topics if qid in data.qrels]
        queries = self.index.lucene.queries([data.topics[qid] for qid in judged], judged)
        parts = []
        for query, candidates in zip(queries, self.index.lucene.search(queries, hits), strict=True):
            grades = data.qrels[query.qid]
            labels = np.array([max(0, grades.get(docid, 0)) for docid in self.forward.docids.take(candidates.docs)], dtype=int)
            if len(np.unique(labels)) < 2 or not len(self.query_words(query)[0]):
                continue
            parts.append((self.scaled_levels(self.level_scores(query, candidates)), labels))
        if not parts:
            raise InputError(
                "no topic has both relevant and other documents among its candidates; nothing to learn from",
                option=Flag("qrels"),
            )
        weights = bem_weights(preference_margins(parts))
        if weights is None:
            logger.info("mslm: no level prefers relevant documents; level weights stay uniform")
            return uniform_weights(len(self.scales))
        logger.info("level weights from %d topics: %s", len(parts), ", ".join(f"{weight:.3f}" for weight in weights))
        return weights

    @cached_property
    def _background(self) -> NDArray[np.float64]:
        counts = np.asarray(self.forward.cf, dtype=np.float64)
        return np.asarray(counts / max(1.0, counts.sum()))

    @cached_property
    def importance(self) -> NDArray[np.float64] | None:
        """The weight of each word of the index before smoothing, its idf, shape (words,); None: all alike."""
        return ranking_models.idf(self.forward.df, self.forward.statistics.documents).astype(np.float64)

    def query_words(self, query: Query) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Numbers and weights of the query's words that the index has, in order."""
        words = self.forward.term_ids(query.terms)
        weights = np.asarray(query.weights, dtype=np.float64)
        known = (words >= 0) & (weights > 0)
        words, weights = words[known], weights[known]
        return words, weights if self.importance is None else weights * self.importance[words]

    def rows(self, query: Query, scales: tuple[Scale, ...] | None = None) -> QueryRows:
        """The rows of the pyramid of the query's and related words, at the method's scales or others; CannotAct without any."""
        words, weights = self.query_words(query)
        if not len(words):
            raise CannotAct("no word of the query is in the index")
        return QueryRows(
            self.graph, words, weights, self._background, scales or self.scales,
            eta=self.settings.eta, limit=self.limit, importance=self.importance,
        )  # fmt: skip

    def texts(self, rows: QueryRows, docs: NDArray[np.integer]) -> Texts:
        """Documents reduced to the words of the query's rows."""
        return rows.texts(*take_ranges(*self.word_ranges(docs)))

    def word_ranges(self, docs: NDArray[np.integer]) -> WordRanges:
        """Documents as word numbers in reading order."""
        docs = np.asarray(docs)
        if self.forward.statistics.tokens > IN_MEMORY:
            indptr, words = sequences(self.forward, docs)
            return WordRanges(words, indptr[:-1], indptr[1:])
        starts, words = _reading_order(self.forward)
        return WordRanges(words, starts[docs], starts[docs + 1])

    def level_scores(self, query: Query, candidates: Candidates) -> NDArray[np.float64]:
        """Raw similarities, shape (candidates, levels).

        They don't depend on the other candidates. Those of a thread's last query are cached: `auto` asks for overlapping ones.
        """
        docs, last = candidates.docs, getattr(self._cache, "last", None)
        if last is None or last.query != query:
            last = _Scored(query, self.rows(query), np.zeros(0, dtype=docs.dtype), np.zeros((0, len(self.scales))))
        new = difference(docs, last.docs)
        if len(new):
            levels = self.matcher.scores_of_words(last.rows, self.word_ranges(new))
            if len(last.docs):
                together = np.concatenate([last.docs, new])
                order = np.argsort(together, kind="stable")
                new, levels = together[order], np.concatenate([last.levels, levels])[order]
            last = last._replace(docs=new, levels=levels)
        self._cache.last = last
        return last.levels[np.searchsorted(last.docs, docs)]

    def scaled_levels(self, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """Level similarities of a query's candidates as they are weighted, shape (candidates, levels)."""
        return zscores(levels, self.matcher.error)

    def deviations(self, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """What `scaled_levels` divides each level by, shape (levels,); 0 for a level that orders nothing."""
        return np.asarray(levels.std(axis=0) * self.scaled_levels(levels).any(axis=0))

    def combined_levels(self, levels: NDArray[np.float64]) -> NDArray[np.float64]:
        """The z-scores of the weighted sums of `scaled_levels` (candidates, levels), shape (candidates,)."""
        return zscores(levels @ self.level_weights, self.matcher.error)

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.float64]:
        """The weighted levels and the first stage, both z-scored, mixed by --mslm.mix."""
        matched = self.combined_levels(self.scaled_levels(self.level_scores(query, candidates)))
        return self.settings.mix * matched + (1 - self.settings.mix) * zscores(candidates.scores)

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists; the context's threads share the queries, since matching releases the GIL."""
        pairs = list(zip(queries, lists, strict=True))
        return map_in_threads(lambda pair: self.rescore(*pair, context), pairs, context.threads)

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The first stage's part, each level's part, and within a level the words' parts."""
        from kernelsearch.rerankers.mslm.explanation import explain

        return explain(self, query, candidates, doc)

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """The document's pyramid and where each scale matched; without `doc`, of the best document after reranking."""
        from kernelsearch.rerankers.mslm.plot import plot

        plot(self, query, int(self.apply(query, candidates, context).docs[0]) if doc is None else doc, path)


@once_per_object
def _reading_order(forward: ForwardIndex) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """All texts of a collection in reading order, (indptr, words)."""
    return sequences(forward, np.arange(len(forward)))


def level_scales(spatial: Sequence[float], semantic: Sequence[float], owner: str, width: int = 0) -> tuple[Scale, ...]:
    """The levels with scales `spatial` along positions and `semantic` along words, one for all or one per level.

    `width` is that of windows. Raises OptionError, with an option of the method `owner`, for scales that don't match each other
    or bounds.
    """
    if len(semantic) not in (1, len(spatial)):
        raise OptionError(
            f"{len(semantic)} values for {len(spatial)} scales; one, or one per scale, was expected",
            option=Flag("semantic", owner),
        )
    if not spatial:
        raise OptionError("no scale is given", option=Flag("scales", owner))
    if len(spatial) > MOST_LEVELS:
        raise OptionError(f"{len(spatial)} scales; at most {MOST_LEVELS} can be used", option=Flag("scales", owner))
    if any(WIDEST < scale < math.inf for scale in spatial):
        raise OptionError(f"a scale above {WIDEST:g}; inf takes the whole text", option=Flag("scales", owner))
    words = semantic if len(semantic) == len(spatial) else [*semantic] * len(spatial)
    return tuple(Scale(place, word, width) for place, word in zip(spatial, words, strict=True))
