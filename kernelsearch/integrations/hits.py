"""Reranking of hit lists from any searcher: Pyserini's Lucene, impact, FAISS and hybrid searchers, or objects of your own."""

from __future__ import annotations

import copy
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.api.keywords import Rerank, read_keywords
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.results import Hit, Hits
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene.models import Model
from kernelsearch.lucene.shards import Source

H = TypeVar("H")


class LuceneSearcher(Protocol):
    """A searcher of Pyserini's, or one with its attributes."""

    index_dir: str


#: What an index can be opened from: one or several folders, an opened index, or a searcher over one.
IndexSource = Source | Index | LuceneSearcher

#: Options of the first stage that choose its ranking model.
MODEL_OPTIONS = {"k1", "b", "qld", "mu", "qljm", "lambda"}


class KernelReranker:
    """Reranks lists of hits; a list keeps its documents.

    A method that searches again (such as `pert`) rescores the list instead.

    Parameters
    ----------
    index : the Lucene index that has the documents: a folder, an opened index, or a Pyserini searcher over it, whose ranking
        model is used unless options choose another
    rerank : one method or several, as in `kernelsearch.Index.search`
    missing : what to do with hits that are not in the index: "refuse" raises InputError with their docids, "last" puts them
        behind all others, in their order
    options : options of the first stage and of the methods, as in `kernelsearch.Index.search`
    """

    def __init__(self, index: IndexSource, rerank: Rerank = "pert", *, missing: str = "refuse", **options: Any) -> None:
        if missing not in ("refuse", "last"):
            raise OptionError(f"missing: {missing!r} is not one of refuse, last")
        if not rerank:
            raise OptionError("rerank: no method is named")
        self.index = open_index(index)
        self.missing = missing
        self._spec = read_keywords(rerank, options)
        if (model := _searcher_model(index)) is not None and not MODEL_OPTIONS & options.keys():
            first_stage = dataclasses.replace(self._spec.first_stage, model=model)
            self._spec = dataclasses.replace(self._spec, first_stage=first_stage)
        _ = self.pipeline  # so that missing fitted state is an error here and not in the first reranking

    def __repr__(self) -> str:
        return f"KernelReranker({self.index.name!r}, {[reranker.name for reranker in self.pipeline.rerankers]})"

    @property
    def pipeline(self) -> Pipeline:
        """The pipeline whose methods rerank; the index keeps it ready."""
        return self.index.open_pipeline(self._spec)

    @overload
    def rerank(self, query: str, hits: Sequence[H], /) -> Hits[H]: ...
    @overload
    def rerank(self, doc_ids: Sequence[str], search_scores: Sequence[float], query: str) -> tuple[list[float], list[str]]: ...
    def rerank(self, doc_ids: Any, search_scores: Any, query: str | None = None) -> Any:
        """One list, reranked.

        - `rerank(query, hits)`: hits are objects with `.docid` and `.score`; returns new ones of the same type, best first.
        - `rerank(doc_ids, search_scores, query=...)`: the signature of Pyserini's PseudoRelevanceClassifierReranker; returns
          (scores, doc_ids), best first.
        """
        if isinstance(doc_ids, str):
            return self.batch_rerank({"": doc_ids}, {"": search_scores})[""]
        if query is None:
            raise InputError("rerank(doc_ids, search_scores): the query's text is needed too (query=...)")
        if len(doc_ids) != len(search_scores):
            raise InputError(f"rerank: {len(doc_ids)} documents but {len(search_scores)} scores")
        order = self._rerank_lists({"": query}, {"": self._read_list("", doc_ids, search_scores)})[""]
        return order.scores.tolist(), [doc_ids[place] for place in order.places.tolist()]

    def batch_rerank(self, queries: Mapping[str, str], lists: Mapping[str, Sequence[H]]) -> dict[str, Hits[H]]:
        """Many lists at once: `queries` {qid: text} and `hits` {qid: hits} to {qid: reranked hits}."""
        if unknown := [qid for qid in lists if qid not in queries]:
            raise InputError(f"batch_rerank: topic {unknown[0]!r} has hits but no query")
        inputs = {
            qid: self._read_list(qid, list(map(attrgetter("docid"), hits)), list(map(attrgetter("score"), hits)))
            for qid, hits in lists.items()
        }
        return {qid: _arrange_hits(lists[qid], order) for qid, order in self._rerank_lists(queries, inputs).items()}

    def _read_list(self, qid: str, docids: Sequence[str], scores: Sequence[float]) -> _InputList:
        """A caller's list as candidates; `qid` is for messages."""
        label = f"hits{f' of topic {qid}' if qid else ''}"
        values = np.array(scores, dtype=np.float64)
        if not np.isfinite(values).all():
            raise InputError(f"{label}: a score is not a finite number")
        rows = self.index.forward.rows_of(docids)
        if (rows < 0).any():  # some of Pyserini's indexes have docids with blanks around them, which its own writers strip
            rows = self.index.forward.rows_of([docid.strip() for docid in docids])
        if self.missing == "refuse" and (rows < 0).any():
            examples = [docids[place] for place in np.flatnonzero(rows < 0)[:3]]
            raise InputError(
                f"{label}: {int((rows < 0).sum())} of {len(rows)} documents are not in "
                f"{self.index.name}, such as {', '.join(examples)} (missing='last' leaves them behind the others)"
            )
        order = np.argsort(-values, kind="stable")
        known = order[rows[order] >= 0]
        return _InputList(Candidates(rows[known], values[known]), known, order[rows[order] < 0])

    def _rerank_lists(self, queries: Mapping[str, str], inputs: Mapping[str, _InputList]) -> dict[str, _Order]:
        """The new order of each list."""
        analysed = self.index.lucene.queries([queries[qid] for qid in inputs], list(inputs))
        reranked = self._apply(analysed, [hits.candidates for hits in inputs.values()])
        return {qid: _make_order(hits, ranked) for (qid, hits), ranked in zip(inputs.items(), reranked, strict=True)}

    def _apply(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[Candidates]:
        pipeline = self.pipeline
        current, context = list(lists), pipeline.context()
        for reranker in pipeline.rerankers:
            if reranker.method.retrieves:  # `apply_batch` would add documents for which there is no hit
                pairs = zip(queries, current, strict=True)
                current = [reranker.rescore(query, candidates, context) for query, candidates in pairs]
            else:
                current = reranker.apply_batch(queries, current, context)
        return current


class _InputList(NamedTuple):
    """A caller's list: its candidates, best first, their places in it, and the places of documents not in the index."""

    candidates: Candidates
    known: NDArray[np.int64]
    unknown: NDArray[np.int64]


class _Order(NamedTuple):
    """A reranked list: places in the caller's list, and new scores."""

    places: NDArray[np.int64]
    scores: NDArray[np.float64]


def _make_order(hits: _InputList, ranked: Candidates) -> _Order:
    """The order of a reranked list; documents that are not in the index follow, each with a score lower by 1."""
    # Both lists hold the same rows, so sorting both pairs them; of a document listed twice, each entry gets one of the two.
    places = np.empty(len(hits.known), dtype=np.int64)
    places[np.argsort(ranked.docs, kind="stable")] = hits.known[np.argsort(hits.candidates.docs, kind="stable")]
    scores = ranked.scores.astype(np.float64)
    lowest = scores[-1] if len(scores) else 0.0
    below = lowest - 1.0 - np.arange(len(hits.unknown))
    return _Order(np.concatenate([places, hits.unknown]), np.concatenate([scores, below]))


def open_index(source: IndexSource) -> Index:
    """An index from `source`: one or several folders, an opened index, or a searcher over one; InputError for anything else."""
    if isinstance(source, Index):
        return source
    if isinstance(opened := getattr(source, "index", None), Index):
        return opened
    if isinstance(source, str | Path | list | tuple):
        return Index(source)
    if hasattr(source, "index_dir"):
        return Index(source.index_dir)
    raise InputError(f"index: a folder, an opened index or a Lucene searcher was expected, not {type(source).__name__}")


def _searcher_model(source: object) -> Model | None:
    """The ranking model of a Pyserini searcher; None for an index."""
    if isinstance(source, Index) or not hasattr(source, "get_similarity"):
        return None
    from kernelsearch.lucene.simple import model_of

    return model_of(source.get_similarity())


def _arrange_hits(hits: Sequence[H], order: _Order) -> Hits[H]:
    """Copies of the hits with their new scores, in the new order, made on first access."""
    original = list(hits)  # a copy: the caller may change the list before the new hits are made

    def make() -> list[H]:
        copiers = {kind: _copier(kind) for kind in set(map(type, original))}
        ordered = [original[place] for place in order.places.tolist()]
        return [copiers[type(hit)](hit, score) for hit, score in zip(ordered, order.scores.tolist(), strict=True)]

    return Hits(later=make, size=len(original))


@functools.lru_cache(maxsize=64)
def _copier(kind: type) -> Callable[[Any, float], Any]:
    """A function that copies a hit of a type with another score; chosen once per type, because lists are long."""
    if hasattr(kind, "__javaclass__"):  # Anserini's ScoredDoc
        return lambda hit, score: kind(hit.docid, hit.lucene_docid, score, hit.lucene_document)
    if issubclass(kind, Hit):
        return kind.rescored
    if hasattr(kind, "_replace"):  # a named tuple
        return lambda hit, score: hit._replace(score=score)
    if _has_plain_dict(kind):
        return _copy if isinstance(getattr(kind, "score", None), property) else _copy_dict
    if dataclasses.is_dataclass(kind):
        return lambda hit, score: dataclasses.replace(hit, score=score)
    return _copy


def _has_plain_dict(kind: type) -> bool:
    """Whether copying `__dict__` copies an object of this type."""
    methods = (("__reduce_ex__", object.__reduce_ex__), ("__reduce__", object.__reduce__))
    inherited = all(getattr(kind, name) is method for name, method in methods)
    return inherited and not hasattr(kind, "__copy__") and not any("__slots__" in vars(base) for base in kind.__mro__)


def _copy_dict(hit: Any, score: float) -> Any:
    """As `copy.copy` for objects whose state is all in `__dict__`, in a fifth of its time."""
    new = object.__new__(type(hit))
    state = new.__dict__
    state.update(hit.__dict__)
    state["score"] = score
    return new


def _copy(hit: Any, score: float) -> Any:
    new = copy.copy(hit)
    new.score = score
    return new
