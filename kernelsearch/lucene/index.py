"""A Lucene index opened for reading, and the first stage, which retrieves candidates from it.

An opened index analyses texts, searches, expands queries by feedback, and has stored texts and statistics. A first stage says
how candidates are retrieved: by which ranking model, with which feedback method, and how many.
"""

from __future__ import annotations

import re
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import astuple, dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, IndexProblem, IndexReplaced, InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene import jvm
from kernelsearch.lucene.agreement import refuse_differences
from kernelsearch.lucene.models import (
    RM3,
    BM25Model,
    BM25WithoutIdf,
    DirichletModel,
    Feedback,
    FirstStageSettings,
    JelinekMercerModel,
    Model,
    Rocchio,
    model_of_expanded,
)
from kernelsearch.lucene.rounding import anserini_scores
from kernelsearch.lucene.shards import Shards, Source, find_shards, open_reader, present_state
from kernelsearch.lucene.versions import has_term_vectors

#: The field that is searched, Anserini's name.
CONTENTS = "contents"
#: Searchers, one per ranking model, that an opened index keeps: requests may ask for any k1 and b.
MAX_SEARCHERS = 64
#: Lists of single queries that a thread caches: the first stage's, and that of one expanded query.
RECENT = 2
#: Largest number of documents of one Lucene reader (IndexWriter.MAX_DOCS).
MAX_ROWS = 2**31 - 1 - 128


F = TypeVar("F", bound=Callable[..., Any])


def reads_index(method: F) -> F:
    """Decorates a method of LuceneIndex that reads the index with Java, as `jvm.calls_java`; messages name the index."""
    return jvm.calls_java(method, _name_index)


def _name_index(index: LuceneIndex, message: str) -> str:
    """The message of an error with the name of the index, unless a method that was called in between has added it."""
    if message.startswith(f"{index.name}: "):
        return message
    return f"{index.name}: {message}; python -m kernelsearch.check {index.shards.flags} says whether the index is damaged"


@dataclass(frozen=True)
class FieldStatistics:
    """A field's statistics in Lucene, and what is indexed of it."""

    documents: int  #: documents that have the field (docCount)
    tokens: int  #: sum of all term frequencies (sumTotalTermFreq)
    postings: int  #: sum of all document frequencies (sumDocFreq)
    positions: bool  #: whether token positions are indexed
    vectors: bool  #: whether term vectors are stored


class VectorsMissing(IndexProblem, TypeError):
    """An index without the document vectors that Anserini's feedback reads; a TypeError as well, which Pyserini raises."""


class _Search(NamedTuple):
    """A query, how it was searched for, and its list."""

    query: Query
    model: Model | BM25WithoutIdf
    hits: int
    ranked: Candidates

    def has(self, queries: Sequence[Query], model: Model | BM25WithoutIdf, hits: int) -> bool:
        """Whether the list begins with the best `hits` documents of `queries` by `model`."""
        return len(queries) == 1 and hits <= self.hits and self.model == model and self.query == queries[0]


class LuceneIndex:
    """A Lucene index, or several shards as one, opened for reading. All methods are thread-safe.

    Parameters: `path` names the collection, or is its shards; `language` is the analyser's language code, by default the one
    that the index was built with; `java_heap` is the JVM's maximal heap (such as `4g`) if this is the first use of Java in the
    process.

    Attributes: `shards`, the Lucene indexes; `path`, the (first) folder that was named; `name`, the collection's name in
    messages; `fingerprint`; `language`; `starts` (shards + 1,), the row at which each shard begins, and the number of rows.
    """

    def __init__(self, path: Source | Shards, *, language: str | None = None, java_heap: str | None = None) -> None:
        self.shards = path if isinstance(path, Shards) else find_shards(path)
        self.path, self.name = self.shards.home, self.shards.name
        self.fingerprint = self.shards.fingerprint
        self.language = language or self.shards.language
        self._searchers: dict[Model | BM25WithoutIdf, Any] = {}
        self._lock = threading.Lock()
        self._recent = threading.local()
        jvm.start(java_heap)
        self._open()

    @jvm.calls_java
    def _open(self) -> None:
        self._bridge = jvm.bridge()
        replaced = IndexReplaced("the index has been replaced while it was opened; open it again", path=self.name)
        try:
            self._reader, self.starts = self._open_readers()
        except IndexProblem:
            # Files of two states don't fit each other, which looks like damage.
            if present_state(self.shards.folders) != self.fingerprint:
                raise replaced from None
            raise
        if present_state(self.shards.folders) not in (self.fingerprint, None):
            self._reader.close()
            raise replaced
        self._analyzer = make_analyzer(self.language)
        self._order = self._bridge.order(self._reader)

    def _open_readers(self) -> tuple[Any, NDArray[np.int64]]:
        """One IndexReader (Java) over all shards, and the rows at which they begin."""
        readers = [open_reader(path) for path in self.shards.paths]
        starts = np.concatenate([[0], np.cumsum([reader.maxDoc() for reader in readers], dtype=np.int64)])
        if len(readers) == 1:
            return readers[0], starts
        refuse_differences(self.shards.paths, readers)
        if starts[-1] > MAX_ROWS:
            raise IndexProblem(
                f"{starts[-1]} documents, but one process can open at most {MAX_ROWS}; let several processes "
                "search some of the shards each",
                path=self.name,
            )
        return self._bridge.together(readers), starts

    def __repr__(self) -> str:
        return f"LuceneIndex({self.name!r})"

    @reads_index
    def close(self) -> None:
        """Closes the index's files. The object can't be used afterwards."""
        self._recent = threading.local()
        self._reader.close()

    @property
    def reader(self) -> Any:
        """The IndexReader (Java)."""
        return self._reader

    @reads_index
    def rows(self) -> int:
        """Returns the number of rows, deleted documents included (Lucene's maxDoc)."""
        return int(self._reader.maxDoc())

    @reads_index
    def documents(self) -> int:
        """Returns the number of documents that aren't deleted (Lucene's numDocs)."""
        return int(self._reader.numDocs())

    @reads_index
    def field_statistics(self, field: str = CONTENTS) -> FieldStatistics:
        """Returns the statistics of a field; zeros where no document has it."""
        documents, tokens, postings, positions = self._bridge.statistics(self._reader, field)
        return FieldStatistics(documents, tokens, postings, bool(positions), has_term_vectors(self._reader, field))

    @reads_index
    def analyze(self, texts: Sequence[str], field: str = CONTENTS) -> list[list[str]]:
        """Returns the terms of each of `texts`, as the index's analyser makes them for `field`, in text order."""
        if not texts:
            return []
        packed = "\n".join(_one_line(text) for text in texts).encode("utf-8", errors="replace")
        answer = jvm.receive(self._bridge.analyze, self._analyzer, field, packed)
        lines = answer.decode("utf-8", errors="replace").split("\n")[:-1]
        return [line.split("\t") if line else [] for line in lines]

    def queries(self, texts: Sequence[str], qids: Sequence[str] | None = None) -> list[Query]:
        """Returns one analysed query for each of `texts`; `qids` are their ids (by default empty)."""
        ids = list(qids) if qids is not None else [""] * len(texts)
        return [Query.from_tokens(text, tokens, qid) for text, tokens, qid in zip(texts, self.analyze(texts), ids, strict=True)]

    @reads_index
    def search(
        self,
        queries: Sequence[Query],
        hits: int = 1000,
        *,
        model: Model | BM25WithoutIdf = BM25Model(),  # noqa: B008  an immutable value
        feedback: Feedback | None = None,
        threads: int = 1,
    ) -> list[Candidates]:
        """Returns the best `hits` documents per query with Lucene's raw scores; ties as in Anserini.

        These are in docid order, or in an index of Lucene 8 in the order of rows.

        `model` is the ranking model. With `feedback` the queries are expanded first. `threads` is the number of Java threads
        that share the queries.

        A thread's last lists of single queries are cached: feedback needs the first documents of the list just retrieved.
        """
        if not queries:
            return []
        recent: deque[_Search] = self._recent.__dict__.setdefault("searches", deque(maxlen=RECENT))
        if feedback is None:
            for search in recent:
                if search.has(queries, model, hits):
                    return [search.ranked.top(hits)]
        if feedback is not None:
            assert not isinstance(model, BM25WithoutIdf)  # a model of expanded queries
            queries = self.expand(queries, feedback, model=model, threads=threads)
            model = model_of_expanded(feedback, model)
        lists = self._search_with(self._searcher(model), queries, hits, threads)
        if len(queries) == 1:
            for array in (lists[0].docs, lists[0].scores):
                array.flags.writeable = False  # the next caller gets the same
            recent.append(_Search(queries[0], model, hits, lists[0]))
        return lists

    def _search_with(self, searcher: Any, queries: Sequence[Query], hits: int, threads: int) -> list[Candidates]:
        """Returns the best `hits` documents for each of `queries` by `searcher`.

        This is a searcher of the bridge (Java) over this index's reader; `threads` as in `search`. The caller is decorated with
        `jvm.calls_java`.
        """
        packed = "\n".join(_weighted_line(query) for query in queries).encode("utf-8", errors="replace")
        expected = min(len(queries) * (4 + 8 * min(hits, int(self.starts[-1]))), jvm.LARGEST)
        arguments = (searcher, CONTENTS, packed, hits, self._order, threads)
        answer = jvm.receive(self._bridge.search, *arguments, expected=expected)
        ends = list(accumulate(np.frombuffer(answer, np.int32, len(queries)).tolist()))
        docs = np.frombuffer(answer, np.int32, ends[-1], 4 * len(queries)).copy()
        scores = np.frombuffer(answer, np.float32, ends[-1], 4 * len(queries) + docs.nbytes).copy()
        return [Candidates(docs[start:end], scores[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    def require_vectors(self, feedback: Feedback) -> None:
        """Raises VectorsMissing for an index without the document vectors that Anserini's `feedback` reads."""
        if not self.field_statistics().vectors:
            raise VectorsMissing(
                f"{type(feedback).__name__} needs document vectors, which this index doesn't store; index again "
                "(kernelsearch.index stores them by default, Pyserini with --storeDocvectors)",
                path=self.name,
            )

    @reads_index
    def expand(
        self,
        queries: Sequence[Query],
        feedback: Feedback,
        *,
        model: Model = BM25Model(),  # noqa: B008
        threads: int = 1,
    ) -> list[Query]:
        """Returns the queries as Anserini's feedback method expands them; a query without any match is returned unchanged.

        `model` and `threads` are those of `search`. Raises VectorsMissing for an index without document vectors.
        """
        if not queries:
            return []
        self.require_vectors(feedback)
        separator = "\x1f"
        packed = "\n".join(f"{_weighted_line(query)}{separator}{_one_line(query.text)}" for query in queries)
        reranker = feedback.reranker(self._analyzer, CONTENTS)
        buffer = self._bridge.expand(
            self._searcher(model),
            reranker,
            self._analyzer,
            CONTENTS,
            packed.encode("utf-8", errors="replace"),
            feedback.depth,
            self._order,
            threads,
        )
        lines = jvm.copy_array(buffer, np.uint8).tobytes().decode("utf-8", errors="replace").split("\n")
        return [_reweighted(query, line) for query, line in zip(queries, lines, strict=True)]

    @reads_index
    def stored(self, docs: Sequence[int] | NDArray[np.integer], field: str = "raw") -> list[str | None]:
        """Returns a stored field of the documents in the rows `docs`; None where a document doesn't store it."""
        rows = np.ascontiguousarray(docs, dtype=np.int32)
        if not len(rows):
            return []
        data, sizes = self._bridge.stored(self._reader, field, rows.tobytes())
        text, lengths = jvm.copy_array(data, np.uint8).tobytes(), jvm.copy_array(sizes, np.int32)
        ends = np.cumsum(np.maximum(lengths, 0))
        return [
            None if size < 0 else text[end - size : end].decode("utf-8", errors="replace")
            for size, end in zip(lengths.tolist(), ends.tolist(), strict=True)
        ]

    @reads_index
    def document(self, doc: int) -> Any:
        """Returns the stored fields of the document in row `doc` (a Java Document)."""
        return self._reader.storedFields().document(int(doc))

    @property
    def analyzer(self) -> Any:
        """The analyser of queries (Java); may be replaced."""
        return self._analyzer

    @analyzer.setter
    def analyzer(self, replacement: Any) -> None:
        self._analyzer = replacement

    @reads_index
    def docids(self, start: int = 0, end: int | None = None) -> list[str]:
        """Returns the docids of rows start..end-1 (by default all), for indexes without a forward index."""
        data, sizes = self._bridge.docids(self._reader, "id", start, self.rows() if end is None else end)
        text, lengths = jvm.copy_array(data, np.uint8).tobytes(), jvm.copy_array(sizes, np.int32)
        ends = np.cumsum(lengths)
        return [text[e - s : e].decode("utf-8", errors="replace") for s, e in zip(lengths.tolist(), ends.tolist(), strict=True)]

    def _searcher(self, model: Model | BM25WithoutIdf) -> Any:
        with self._lock:
            searcher = self._searchers.get(model)
            if searcher is None:
                searcher = self._bridge.searcher(self._reader, _similarity(model))
                if len(self._searchers) >= MAX_SEARCHERS:
                    del self._searchers[next(iter(self._searchers))]
                self._searchers[model] = searcher
            return searcher


@jvm.calls_java
def similarity(model: Model | BM25WithoutIdf) -> Any:
    """Returns the Lucene Similarity (Java) of a ranking model."""
    return _similarity(model)


def _similarity(model: Model | BM25WithoutIdf) -> Any:
    """The same, for callers that `calls_java` decorates."""
    from jnius import autoclass

    return autoclass(model.java_class)(*astuple(model))


def make_analyzer(language: str) -> Any:
    """Returns Anserini's analyser (Java) for a language code.

    `en` stems with Porter's stemmer, `whitespace` splits at white space only. Raises OptionError for an unknown code.
    """
    from jnius import autoclass

    if language == "en":
        return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    if language == "whitespace":
        return autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    known = autoclass("io.anserini.analysis.AnalyzerMap")
    if not known.analyzerMap.containsKey(language):
        names = sorted([*(key for key in known.analyzerMap.keySet().toArray()), "en", "whitespace"])
        raise OptionError(f"{language!r} is not one of {', '.join(names)}", option=Flag("language"))
    return known.getLanguageSpecificAnalyzer(language)


def english_with_stopwords(stopwords: str) -> Any:
    """Returns Anserini's English analyser (Java) with the stop words of the file `stopwords`, one per line."""
    from jnius import autoclass

    return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").fromArguments("porter", False, stopwords)


def _one_line(text: str) -> str:
    """The text without the characters that separate texts in a call of Java. Other white space stays: not every analyser
    splits at each kind of it, and queries must be analysed as documents were."""
    return _SEPARATORS.sub(" ", text)


_SEPARATORS = re.compile(r"[\n\x1f]")


def _weighted_line(query: Query) -> str:
    for term, weight in zip(query.terms, query.weights, strict=True):
        if not 0 <= weight < float("inf"):
            raise OptionError(
                f"query {query.qid or query.text!r}: weight {weight} of term {term!r} must be finite and not negative"
            )
    return "\t".join(f"{term}\t{float(weight)!r}" for term, weight in zip(query.terms, query.weights, strict=True))


def _reweighted(query: Query, line: str) -> Query:
    if not line:
        return query
    parts = line.split("\t")
    return Query(query.text, tuple(parts[::2]), tuple(float(weight) for weight in parts[1::2]), query.qid)


class Expander(Protocol):
    """Computes the queries that a feedback method makes of the best `feedback.depth` documents of each query's list."""

    def __call__(self, queries: Sequence[Query], lists: Sequence[Candidates], feedback: Feedback) -> list[Query]: ...


@dataclass(frozen=True)
class FirstStage:
    """How candidates are retrieved: ranking model, feedback method and number of `hits` per query.

    `fields` (names and boosts), `dismax` (tie breaker of a disjunction-max query over the fields) and `query_side` (BM25
    weights for query terms too) are passed to Anserini's own searcher, which rounds its scores; with `rounded`, the scores of
    all other searches are rounded in the same way.
    """

    model: Model = field(default_factory=BM25Model)
    feedback: Feedback | None = None
    hits: int = 1000
    fields: tuple[tuple[str, float], ...] = ()
    dismax: float | None = None
    query_side: bool = False
    rounded: bool = False

    @classmethod
    def from_settings(cls, settings: FirstStageSettings) -> FirstStage:
        """Returns the first stage that the options `settings` describe; InputError for options that exclude each other."""
        if settings.qld and settings.qljm:
            raise InputError(Flag("qld"), " and ", Flag("qljm"), " exclude each other")
        if not (settings.bm25 or settings.qld or settings.qljm):
            raise InputError(
                "documents are ranked by BM25, ",
                Flag("qld"),
                " or ",
                Flag("qljm"),
                "; name one of them",
                option=Flag("bm25", value=False),
            )
        if settings.rm3 and settings.rocchio:
            raise InputError(Flag("rm3"), " and ", Flag("rocchio"), " exclude each other")
        model: Model = BM25Model(settings.k1, settings.b)
        if settings.qld:
            model = DirichletModel(settings.mu)
        elif settings.qljm:
            model = JelinekMercerModel(settings.lambda_)
        feedback: Feedback | None = None
        if settings.rm3:
            feedback = RM3(settings.rm3_terms, settings.rm3_docs, settings.rm3_weight)
        elif settings.rocchio:
            feedback = Rocchio(
                top_terms=settings.rocchio_terms,
                top_docs=settings.rocchio_docs,
                alpha=settings.rocchio_alpha,
                beta=settings.rocchio_beta,
                gamma=settings.rocchio_gamma,
                negative=settings.rocchio_use_negative,
                hits=settings.hits,
            )
        return cls(model, feedback, settings.hits)

    def expand(
        self, lucene: LuceneIndex, queries: Sequence[Query], *, threads: int = 1, expander: Expander | None = None
    ) -> list[Query]:
        """Returns the queries as the feedback method expands them, unchanged without one.

        `lucene` is the index, `threads` the number of Java threads that share the queries. `expander` computes the feedback; by
        default Anserini does, which needs stored document vectors and gives the same.
        """
        if self.feedback is None:
            return list(queries)
        if expander is None:
            return lucene.expand(queries, self.feedback, model=self.model, threads=threads)
        lists = lucene.search(queries, self.feedback.depth, model=self.model, threads=threads)
        return expander(queries, lists, self.feedback)

    def search(
        self, lucene: LuceneIndex, queries: Sequence[Query], *, threads: int = 1, expander: Expander | None = None
    ) -> list[Candidates]:
        """Returns one ranked list per query, of the index `lucene`.

        `threads` is the number of Java threads that share the queries; `expander` is described at `expand`.
        """
        if self.fields or self.query_side:
            from kernelsearch.lucene.simple import search_by_text

            chosen = self.fields, self.dismax, self.query_side
            return search_by_text(lucene, queries, self.hits, self.model, self.feedback, *chosen)
        model = self.model if self.feedback is None else model_of_expanded(self.feedback, self.model)
        expanded = self.expand(lucene, queries, threads=threads, expander=expander)
        lists = lucene.search(expanded, self.hits, model=model, threads=threads)
        return [Candidates(ranked.docs, anserini_scores(ranked.scores)) for ranked in lists] if self.rounded else lists
