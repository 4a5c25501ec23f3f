"""Drop-in replacements for classes of Pyserini, which is imported only by the methods that call it.

from kernelsearch.integrations.pyserini import KernelSearcher as LuceneSearcher
searcher = LuceneSearcher("indexes/cacm", rerank="klsa")
"""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.api.arguments import checked
from kernelsearch.api.index import Index
from kernelsearch.api.keywords import Rerank, read_keywords
from kernelsearch.api.pipeline import Pipeline, count_fallbacks, fallback_messages
from kernelsearch.api.results import Hit, Hits, make_hits
from kernelsearch.core.errors import Flag, InputError, quote
from kernelsearch.core.types import Candidates, Query
from kernelsearch.integrations.hits import KernelReranker, open_index
from kernelsearch.integrations.pyserini_data import download_prebuilt, import_pyserini
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, Feedback, Model, Rocchio
from kernelsearch.lucene.rounding import anserini_scores
from kernelsearch.vectors.settings import VectorSettings

__all__ = ["Document", "KernelReranker", "KernelSearcher"]


class Document:
    """The stored document in row `row` of an index, with the methods of `pyserini.index.lucene.Document`."""

    def __init__(self, index: Index, row: int) -> None:
        self._index = index
        self._row = row

    def docid(self) -> str:
        """The docid; `id()` is the same."""
        return self._index.forward.docids[self._row]

    id = docid

    def lucene_document(self) -> Any:
        """Lucene's document, a Java object."""
        return self._index.lucene.document(self._row)

    def contents(self) -> str | None:
        """The document's text; None where the index does not store it."""
        return self.get("contents")

    def raw(self) -> str | None:
        """The whole record as it was indexed; None where the index does not store it."""
        return self.get("raw")

    def get(self, field: str) -> str | None:
        """The value of a stored field; None where the document has none of that name."""
        return self._index.lucene.stored([self._row], field)[0]


class TextMissing(InputError, NotImplementedError):
    """A Lucene query where the text of a query is needed; a NotImplementedError as well, which Pyserini raises."""


class PyseriniHit(Hit):
    """A hit that is an instance of JScoredDoc, too, for the `isinstance` of a script that has imported Pyserini."""

    __slots__ = ()

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return _pyserini_class("JScoredDoc", PyseriniHit)


def _pyserini_class(name: str, default: type) -> type:
    """The class of `pyserini.search.lucene` where that has been imported: who has not imported it can't ask for the class."""
    return getattr(sys.modules.get("pyserini.search.lucene"), name, default)


class KernelSearcher:
    """Pyserini's LuceneSearcher followed by rerankers.

    It has all methods of LuceneSearcher with the same parameters (`query_generator`, `fields`, ...); without `rerank` it
    returns the same lists, bit for bit. Searching is thread-safe; changing settings at the same time is not.

    Parameters
    ----------
    index_dir : a folder, or an opened index
    prebuilt_index_name, index_reader : as in LuceneSearcher
    rerank : one method or several, as in `kernelsearch.Index.search`
    vectors : the vectors of methods that name none, and where query vectors come from, as in `kernelsearch.Index`: a name, or
        options by name
    options : options of the first stage and of the methods, as in `kernelsearch.Index.search`; `hits` (1000) is how many
        documents are reranked, of which a search returns the best k
    """

    @checked
    def __init__(
        self,
        index_dir: str | Path | Index,
        prebuilt_index_name: str | None = None,
        index_reader: Any = None,
        *,
        rerank: Rerank = None,
        vectors: VectorSettings | Mapping[str, Any] | str | None = None,
        **options: Any,
    ) -> None:
        self.index = open_index(index_dir)
        if vectors is not None:
            self.index = Index(self.index.shards.folders, language=self.index.language, vectors=vectors)
        self.index_dir = str(self.index.path)
        self.prebuilt_index_name = prebuilt_index_name
        self._reader = index_reader
        self._arguments = (rerank, options)
        self._spec = read_keywords(rerank, options)
        self._first = self._spec.first_stage
        self._fallbacks: Counter[tuple[str, str]] = Counter()
        self._simple: dict[tuple[Model, Feedback | None], Any] = {}
        self._lock = threading.RLock()
        self._pipeline(1)  # so that wrong options and missing fitted state are errors here and not in the first search

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return _pyserini_class("LuceneSearcher", KernelSearcher)

    def __repr__(self) -> str:
        return f"KernelSearcher({self.index_dir!r}, rerank={self._spec.names})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.index, self.prebuilt_index_name, self._arguments, self._first)

    @classmethod
    def from_prebuilt_index(
        cls, prebuilt_index_name: str, verbose: bool = False, *, rerank: Rerank = None, **options: Any
    ) -> KernelSearcher:
        """A searcher over the prebuilt index `prebuilt_index_name`; Pyserini downloads it if needed, with `verbose` messages.

        `rerank` and options are those of the class.
        """
        folder = download_prebuilt(prebuilt_index_name, verbose)
        return cls(folder, prebuilt_index_name=prebuilt_index_name, rerank=rerank, **options)

    @staticmethod
    def list_prebuilt_indexes() -> Any:
        """Pyserini's table of prebuilt indexes."""
        return import_pyserini("pyserini.util").get_sparse_indexes_info()

    @cached_property
    def num_docs(self) -> int:
        """The number of documents in the index."""
        return self.index.lucene.rows()

    @property
    def object(self) -> Any:
        """Anserini's SimpleSearcher (Java) with the current settings, without the rerankers."""
        return self._simple_searcher()

    @property
    def index_reader(self) -> Any:
        """Pyserini's LuceneIndexReader of the index."""
        if self._reader is None:
            if self.index.shards.sharded:
                raise InputError("Pyserini's LuceneIndexReader opens one index, not shards", path=self.index.name)
            self._reader = import_pyserini("pyserini.index.lucene").LuceneIndexReader(self.index_dir)
        return self._reader

    @checked
    def search(
        self,
        q: Any,
        k: int = 10,
        query_generator: Any = None,
        fields: Mapping[str, float] | None = None,
        strip_segment_id: bool = False,
        remove_dups: bool = False,
    ) -> Hits[Hit]:
        """The best k documents for a query.

        `q` is a text, or a Lucene query (Java), which cannot be reranked. `query_generator` and `fields` ({field: boost}) are
        passed to Anserini. `strip_segment_id` cuts docids at the first dot, `remove_dups` keeps the first hit of each docid.
        """
        self._check_query(q, fields)
        pipeline = self._pipeline(k)
        if isinstance(q, str) and not query_generator and not fields:
            hits = self._hits(self._count_fallbacks(pipeline.search(self._queries([q], [""])))[0], k)
        else:
            hits = _make_later(self.index, _top(self._search_with_anserini(pipeline, q, query_generator, fields), k))
        return _clean_docids(hits, strip_segment_id, remove_dups)

    @checked
    def batch_search(
        self,
        queries: Sequence[str],
        qids: Sequence[str],
        k: int = 10,
        threads: int = 1,
        query_generator: Any = None,
        fields: Mapping[str, float] | None = None,
    ) -> dict[str, Hits[Hit]]:
        """{qid: best k documents} of `queries` with `qids`, by `threads` threads; `query_generator`, `fields`: see `search`."""
        pipeline = self._pipeline(k)
        for query in queries:
            self._check_query(query, fields)
        if query_generator or fields:
            lists = [_top(self._search_with_anserini(pipeline, query, query_generator, fields), k) for query in queries]
            return {qid: _make_later(self.index, ranked) for qid, ranked in zip(qids, lists, strict=True)}
        lists = self._count_fallbacks(pipeline.search(self._queries(queries, qids), threads=int(threads)))
        return {qid: self._hits(ranked, k) for qid, ranked in zip(qids, lists, strict=True)}

    def get_feedback_terms(self, q: str) -> dict[str, float] | None:
        """The terms of the query `q` as RM3 or Rocchio expand it, with their weights; None where neither is set."""
        if self._first.feedback is None:
            return None
        expanded = self._first.expand(self.index.lucene, self._queries([q], [""]), expander=self.index.expander)[0]
        return dict(zip(expanded.terms, np.array(expanded.weights, dtype=np.float32).tolist(), strict=True))

    def set_analyzer(self, analyzer: Any) -> None:
        """Analyses queries with `analyzer`, a Lucene analyser (Java)."""
        self._replace_index(Index(self.index.shards.folders, vectors=self.index.vector_settings))
        self.index.lucene.analyzer = analyzer

    def set_language(self, language: str) -> None:
        """Analyses queries with the analyser of a language; raises an error for an unknown one."""
        self._replace_index(Index(self.index.shards.folders, language=language, vectors=self.index.vector_settings))
        _ = self.index.lucene  # opening it checks the language

    def set_rm3(
        self,
        fb_terms: int = 10,
        fb_docs: int = 10,
        original_query_weight: float = 0.5,
        debug: bool = False,
        filter_terms: bool = True,
    ) -> None:
        """Expands queries with RM3: `fb_terms` terms of `fb_docs` documents; `filter_terms` drops terms that are not words.

        `original_query_weight` is from 0 to 1. `debug` has no effect: `get_feedback_terms` returns the expanded query. Raises
        VectorsMissing, a TypeError, for an index without document vectors, as Pyserini does.
        """
        self._set_feedback(RM3(int(fb_terms), int(fb_docs), float(original_query_weight), bool(filter_terms)))

    def unset_rm3(self) -> None:
        """Turns RM3 off."""
        if self.is_using_rm3():
            self._set(feedback=None)

    def is_using_rm3(self) -> bool:
        """Whether queries are expanded with RM3."""
        return isinstance(self._first.feedback, RM3)

    def set_rocchio(
        self,
        top_fb_terms: int = 10,
        top_fb_docs: int = 10,
        bottom_fb_terms: int = 10,
        bottom_fb_docs: int = 10,
        alpha: float = 1,
        beta: float = 0.75,
        gamma: float = 0,
        debug: bool = False,
        use_negative: bool = False,
    ) -> None:
        """Expands queries with Rocchio: `alpha` · query + `beta` · best documents - `gamma` · last ones.

        `top_fb_terms` of the `top_fb_docs` best documents are added; with `use_negative`, `bottom_fb_terms` of the
        `bottom_fb_docs` last ones are subtracted. `debug` has no effect: `get_feedback_terms` returns the expanded query.
        """
        self._set_feedback(
            Rocchio(
                int(top_fb_terms),
                int(top_fb_docs),
                int(bottom_fb_terms),
                int(bottom_fb_docs),
                float(alpha),
                float(beta),
                float(gamma),
                bool(use_negative),
            )
        )

    def unset_rocchio(self) -> None:
        """Turns Rocchio off."""
        if self.is_using_rocchio():
            self._set(feedback=None)

    def is_using_rocchio(self) -> bool:
        """Whether queries are expanded with Rocchio."""
        return isinstance(self._first.feedback, Rocchio)

    def set_qld(self, mu: float = 1000.0) -> None:
        """Ranks with query likelihood with Dirichlet smoothing, prior `mu`."""
        self._set(model=DirichletModel(float(mu)))

    def set_bm25(self, k1: float = 0.9, b: float = 0.4) -> None:
        """Ranks with BM25, parameters `k1` and `b`."""
        self._set(model=BM25Model(float(k1), float(b)))

    def get_similarity(self) -> Any:
        """The Lucene Similarity (Java) of the current ranking model."""
        from kernelsearch.lucene.index import similarity

        return similarity(self._first.model)

    def doc(self, docid: str | int) -> Document | None:
        """A document by its docid, or by its number in Lucene; None where there is none."""
        forward = self.index.forward
        row = int(forward.rows_of([docid])[0]) if isinstance(docid, str) else int(docid)
        known = 0 <= row < len(forward) and bool(forward.live[row])
        return Document(self.index, row) if known else None

    def batch_doc(self, docids: Sequence[str], threads: int = 1) -> dict[str, Document]:
        """{docid: document} of the docids that exist; `threads` has no effect."""
        rows = self.index.forward.rows_of(list(docids)).tolist()
        return {docid: Document(self.index, row) for docid, row in zip(docids, rows, strict=True) if row >= 0}

    def doc_by_field(self, field: str, q: str) -> Document | None:
        """The document whose field has exactly the value `q`, such as a DOI; None where there is none."""
        from kernelsearch.lucene.simple import document_by_field

        docid = document_by_field(self._simple_searcher(), field, q)
        return None if docid is None else self.doc(docid)

    def fallbacks(self) -> list[str]:
        """One line per reranker and reason for queries whose list the reranker left unchanged."""
        return fallback_messages(self._fallbacks)

    def close(self) -> None:
        """Closes Lucene's index reader."""
        self.index.lucene.close()

    def _check_query(self, q: Any, fields: Mapping[str, float] | None) -> None:
        """Raises TextMissing for a Lucene query where the current settings need a text."""
        if isinstance(q, str):
            return
        if not hasattr(q, "getClass"):  # what every object of Java has
            raise InputError(f"a text or a Lucene query was expected, not {quote(q)}", option=Flag("q"))
        feedback = self._first.feedback
        needed_by = "rerankers need" if self._spec.methods else f"{type(feedback).__name__} needs" if feedback else ""
        if needed_by:
            raise TextMissing(f"search: {needed_by} the query's text; a Lucene query can only be searched without")
        if fields:
            raise TextMissing("search: fields can't be chosen for a Lucene query, which names its own")

    def _queries(self, texts: Sequence[str], qids: Sequence[str]) -> list[Query]:
        return self.index.lucene.queries(texts, [str(qid) for qid in qids])

    def _count_fallbacks(self, lists: list[Candidates]) -> list[Candidates]:
        """Returns the lists, after counting those that a reranker left unchanged."""
        if any(ranked.fallbacks for ranked in lists):
            with self._lock:
                self._fallbacks.update(count_fallbacks(lists))
        return lists

    def _hits(self, ranked: Candidates, k: int) -> Hits[Hit]:
        return _make_later(self.index, _top(ranked, k), as_anserini=not self._spec.methods)

    def _pipeline(self, k: int) -> Pipeline:
        """The pipeline for the current settings; without rerankers its first stage retrieves k documents only."""
        if k < 1:
            raise InputError(f"search: k={k} is below 1")
        depth = max(int(k), self._first.hits) if self._spec.methods else int(k)
        feedback = self._first.feedback
        if isinstance(feedback, Rocchio):  # Anserini's Rocchio uses no more feedback documents than hits
            feedback = dataclasses.replace(feedback, hits=depth, top_docs=min(feedback.top_docs, depth))
        first = dataclasses.replace(self._first, hits=depth, feedback=feedback)
        return self.index.open_pipeline(dataclasses.replace(self._spec, first_stage=first))

    def _set_feedback(self, feedback: Feedback) -> None:
        self.index.lucene.require_vectors(feedback)
        self._set(feedback=feedback)

    def _set(self, **changes: Any) -> None:
        self._first = dataclasses.replace(self._first, **changes)

    def _replace_index(self, index: Index) -> None:
        with self._lock:
            self.index = index
            self._simple.clear()

    def _simple_searcher(self) -> Any:
        from kernelsearch.lucene.simple import simple_searcher

        key = (self._first.model, self._first.feedback)
        with self._lock:
            if key not in self._simple:
                self._simple[key] = simple_searcher(self.index.lucene, *key)
            return self._simple[key]

    def _search_with_anserini(
        self, pipeline: Pipeline, q: Any, generator: Any, fields: Mapping[str, float] | None
    ) -> Candidates:
        """The list of a search that only Anserini supports (field boosts, query generators, Lucene queries), then reranked."""
        from kernelsearch.lucene.simple import simple_search

        ranked = simple_search(self._simple_searcher(), q, pipeline.first.hits, generator, fields)
        if not self._spec.methods:
            return ranked
        return self._count_fallbacks(pipeline.rerank(self._queries([q], [""]), [ranked]))[0]


def _reopen(index: Index, name: str | None, arguments: tuple[Rerank, dict[str, Any]], first: FirstStage) -> KernelSearcher:
    searcher = KernelSearcher(index, name, rerank=arguments[0], **arguments[1])
    searcher._first = first
    return searcher


def _make_later(index: Index, ranked: Candidates, as_anserini: bool = False) -> Hits[Hit]:
    """Hits that are made on first access, all at once, because reading docids together is much faster."""

    def make() -> list[Hit]:
        rounded = Candidates(ranked.docs, anserini_scores(ranked.scores)) if as_anserini else ranked
        return make_hits(index, rounded, PyseriniHit)

    return Hits(later=make, size=ranked.depth)


def _top(ranked: Candidates, k: int) -> Candidates:
    return Candidates(ranked.docs[:k], ranked.scores[:k])


def _clean_docids(hits: Hits[Hit], strip_segment_id: bool, remove_dups: bool) -> Hits[Hit]:
    """As in LuceneSearcher: docids without their segment number, then only the first hit of each docid."""
    if strip_segment_id:
        for hit in hits:
            hit.docid = hit.docid.split(".")[0]
    if not remove_dups:
        return hits
    first: dict[str, Hit] = {}
    for hit in hits:
        first.setdefault(hit.docid, hit)
    return Hits(list(first.values()))
