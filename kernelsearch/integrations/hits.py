"""Reranking lists of hits, whoever found them: Pyserini's Lucene, impact, FAISS and hybrid searchers, or your own objects."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.api.keywords import Rerank, split
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.results import Hit, Hits
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.first_stage import FirstStage
from kernelsearch.lucene.models import Model

H = TypeVar("H")


class KernelReranker:
    """Reranks lists of hits with one method or several, each list keeping its documents.

    `index` is the Lucene index that knows the documents: a folder, an opened index, or a Pyserini searcher over it, whose
    ranking model is taken over. `rerank` and the options are those of `kernelsearch.Index.search`. A method that would search
    again (such as `pert`) rescores the list instead. `missing` says what becomes of hits that the index doesn't have:
    "refuse" names them in an error, "last" leaves them behind all others, in their order.
    """

    def __init__(self, index: Any, rerank: Rerank = "pert", *, missing: str = "refuse", **options: Any) -> None:
        if missing not in ("refuse", "last"):
            raise OptionError(f"missing: {missing!r} is not one of refuse, last")
        if not rerank:
            raise OptionError("rerank: no method is named")
        self.index = open_index(index)
        self.missing = missing
        methods, settings = split(rerank, options)
        first = FirstStage.from_settings(settings)
        if (model := _model_of(index)) is not None and not {"k1", "b", "qld", "mu", "qljm", "lambda"} & options.keys():
            first = dataclasses.replace(first, model=model)
        self.pipeline = Pipeline(self.index, first, methods)

    def __repr__(self) -> str:
        return f"KernelReranker({self.index.name!r}, {[method.name for method in self.pipeline.rerankers]})"

    @overload
    def rerank(self, query: str, hits: Sequence[H], /) -> Hits[H]: ...
    @overload
    def rerank(self, doc_ids: Sequence[str], search_scores: Sequence[float], query: str) -> tuple[list[float], list[str]]: ...
    def rerank(self, doc_ids: Any, search_scores: Any, query: str | None = None) -> Any:
        """The list in its new order.

        - `rerank(query, hits)`: hits are anything with `.docid` and `.score`; new ones of the same type come back, best first.
        - `rerank(doc_ids, search_scores, query=...)`: as Pyserini's PseudoRelevanceClassifierReranker, two lists that come
          back as (scores, doc_ids), best first.
        """
        if isinstance(doc_ids, str):
            return self.batch_rerank({"": doc_ids}, {"": search_scores})[""]
        if query is None:
            raise InputError("rerank(doc_ids, search_scores): the query's text is needed too (query=...)")
        if len(doc_ids) != len(search_scores):
            raise InputError(f"rerank: {len(doc_ids)} documents but {len(search_scores)} scores")
        order = self._ordered({"": query}, {"": self._prepare("", doc_ids, search_scores)})[""]
        return order.scores.tolist(), [doc_ids[place] for place in order.places.tolist()]

    def batch_rerank(self, queries: Mapping[str, str], lists: Mapping[str, Sequence[H]]) -> dict[str, Hits[H]]:
        """Many lists at once: {qid: text}, {qid: hits} -> {qid: hits}."""
        if unknown := [qid for qid in lists if qid not in queries]:
            raise InputError(f"batch_rerank: topic {unknown[0]!r} has hits but no query")
        given = {
            qid: self._prepare(qid, list(map(attrgetter("docid"), hits)), list(map(attrgetter("score"), hits)))
            for qid, hits in lists.items()
        }
        return {qid: _arranged(lists[qid], order) for qid, order in self._ordered(queries, given).items()}

    def _prepare(self, qid: str, docids: Sequence[str], scores: Sequence[float]) -> _Given:
        """A list as candidates, best first, with the places that they and documents unknown to the index have in it."""
        values = np.array(scores, dtype=np.float64)
        if not np.isfinite(values).all():
            raise InputError(f"hits{f' of topic {qid}' if qid else ''}: a score is not a finite number")
        rows = self.index.forward.rows_of(docids)
        if (rows < 0).any():  # some of Pyserini's indexes have docids with blanks around them, which its own writers cut off
            rows = self.index.forward.rows_of([docid.strip() for docid in docids])
        if self.missing == "refuse" and (rows < 0).any():
            some = [docids[place] for place in np.flatnonzero(rows < 0)[:3]]
            raise InputError(
                f"hits{f' of topic {qid}' if qid else ''}: {int((rows < 0).sum())} of {len(rows)} documents are not in "
                f"{self.index.name}, such as {', '.join(some)} (missing='last' leaves them behind the others)"
            )
        order = np.argsort(-values, kind="stable")
        known = order[rows[order] >= 0]
        return _Given(Candidates(rows[known], values[known]), known, order[rows[order] < 0])

    def _ordered(self, queries: Mapping[str, str], given: Mapping[str, _Given]) -> dict[str, _Order]:
        """The new order of each list; documents without a score follow, each a little lower."""
        analysed = self.index.lucene.queries([queries[qid] for qid in given], list(given))
        reranked = self._apply(analysed, [one.candidates for one in given.values()])
        return {qid: _order(one, found) for (qid, one), found in zip(given.items(), reranked, strict=True)}

    def _apply(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[Candidates]:
        current, context = list(lists), self.pipeline.context()
        for reranker in self.pipeline.rerankers:
            if reranker.method.retrieves:  # reranking would add documents for which there is no hit
                current = [reranker.rescore(query, one, context) for query, one in zip(queries, current, strict=True)]
            else:
                current = reranker.apply_batch(queries, current, context)
        return current


class _Given(NamedTuple):
    """A list as it was given: candidates, best first, their places in it, and the places of documents that aren't known."""

    candidates: Candidates
    known: NDArray[np.int64]
    unknown: NDArray[np.int64]


class _Order(NamedTuple):
    """A list in its new order: places in the list that was given, and new scores."""

    places: NDArray[np.int64]
    scores: NDArray[np.float64]


def _order(given: _Given, found: Candidates) -> _Order:
    # Both lists hold the same rows, so sorting both pairs them; of a document listed twice, each entry finds one of the two.
    places = np.empty(len(given.known), dtype=np.int64)
    places[np.argsort(found.docs, kind="stable")] = given.known[np.argsort(given.candidates.docs, kind="stable")]
    scores = found.scores.astype(np.float64)
    lowest = scores[-1] if len(scores) else 0.0
    left = lowest - 1.0 - np.arange(len(given.unknown))
    return _Order(np.concatenate([places, given.unknown]), np.concatenate([scores, left]))


def open_index(index: Any) -> Index:
    """An index from a folder, an opened index, or a searcher that stands on one."""
    if isinstance(index, Index):
        return index
    if isinstance(getattr(index, "index", None), Index):
        return index.index
    if hasattr(index, "index_dir"):
        return Index(index.index_dir)
    if isinstance(index, (str, Path, list, tuple)):
        return Index(index)
    raise InputError(f"index: a folder, an opened index or a Lucene searcher was expected, not {type(index).__name__}")


def _model_of(searcher: Any) -> Model | None:
    """The ranking model of a Pyserini searcher."""
    if isinstance(searcher, Index) or not hasattr(searcher, "get_similarity"):
        return None
    from kernelsearch.lucene.simple import model_of

    return model_of(searcher.get_similarity())


def _arranged(hits: Sequence[H], order: _Order) -> Hits[H]:
    """Copies of the hits with their new scores, in the new order."""
    kept = list(hits)  # what the caller does to the list meanwhile doesn't matter

    def make() -> list[H]:
        copiers = {kind: _copier(kind) for kind in set(map(type, kept))}  # one, or few
        ordered = [kept[place] for place in order.places.tolist()]
        return [copiers[type(hit)](hit, score) for hit, score in zip(ordered, order.scores.tolist(), strict=True)]

    return Hits(later=make, size=len(kept))


@functools.lru_cache(maxsize=64)
def _copier(kind: type) -> Callable[[Any, float], Any]:
    """How hits of a type are copied, with another score; decided once a type, because lists are long.

    The caller's own hits are left as they were.
    """
    if hasattr(kind, "__javaclass__"):  # Anserini's ScoredDoc
        return lambda hit, score: kind(hit.docid, hit.lucene_docid, score, hit.lucene_document)
    if kind is Hit:
        return lambda hit, score: Hit(hit.docid, score, hit.lucene_docid, hit._index)
    if hasattr(kind, "_replace"):  # a named tuple
        return lambda hit, score: hit._replace(score=score)
    ordinary = kind.__reduce_ex__ is object.__reduce_ex__ and kind.__reduce__ is object.__reduce__
    if ordinary and not hasattr(kind, "__copy__") and not any("__slots__" in vars(base) for base in kind.__mro__):
        return _copied_plainly if not isinstance(getattr(kind, "score", None), property) else _copied
    if dataclasses.is_dataclass(kind):
        return lambda hit, score: dataclasses.replace(hit, score=score)
    return _copied


def _copied_plainly(hit: Any, score: float) -> Any:
    """As `copy.copy` does for objects that keep all they have in `__dict__`, at a fifth of its time."""
    new = object.__new__(type(hit))
    held = new.__dict__
    held.update(hit.__dict__)
    held["score"] = score
    return new


def _copied(hit: Any, score: float) -> Any:
    new = copy.copy(hit)
    new.score = score
    return new
