"""A Lucene index opened for reading: analysis, first-stage search, feedback, stored texts, statistics."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.errors import IndexProblem, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene import jvm
from kernelsearch.lucene.agreement import common_language, refuse_differences
from kernelsearch.lucene.models import BM25Model, Feedback, Model
from kernelsearch.lucene.shards import Source, find_shards
from kernelsearch.lucene.versions import has_term_vectors

CONTENTS = "contents"
#: Rows that one Lucene reader can have (IndexWriter.MAX_DOCS).
MAX_ROWS = 2**31 - 1 - 128


@dataclass(frozen=True)
class FieldStatistics:
    """What Lucene says of a field."""

    documents: int
    tokens: int
    postings: int
    positions: bool
    vectors: bool


class LuceneIndex:
    """A Lucene index, or several shards as one, for reading. Opening starts Java; all methods are thread-safe.

    `starts` are the rows at which the shards begin, and the number of rows last.
    """

    def __init__(self, path: Source, *, language: str | None = None) -> None:
        self.shards = find_shards(path)
        self.path, self.name = self.shards.home, self.shards.name
        self.fingerprint = self.shards.fingerprint
        self.language = language or common_language(self.shards.paths)
        self._searchers: dict[Model, Any] = {}
        self._lock = threading.Lock()
        self._reader, self.starts = self._open()
        self._analyzer, self._order = self._prepare()

    @jvm.calls_java
    def _open(self) -> tuple[Any, np.ndarray]:
        readers = [_reader(path) for path in self.shards.paths]
        starts = np.concatenate([[0], np.cumsum([reader.maxDoc() for reader in readers], dtype=np.int64)])
        if len(readers) == 1:
            return readers[0], starts
        refuse_differences(self.shards.paths, readers)
        if starts[-1] > MAX_ROWS:
            raise IndexProblem(
                f"{self.name}: {starts[-1]} documents, and Lucene counts to {MAX_ROWS} in one process; "
                "let several processes search some of the shards each"
            )
        return jvm.bridge().together(readers), starts

    @jvm.calls_java
    def _prepare(self) -> tuple[Any, Any]:
        from jnius import autoclass

        kind = autoclass("org.apache.lucene.search.SortField$Type")
        field = autoclass("org.apache.lucene.search.SortField")
        # Anserini's order: score, then docid.
        return analyzer(self.language), autoclass("org.apache.lucene.search.Sort")(
            field.FIELD_SCORE, field("id", kind.STRING_VAL)
        )

    def __repr__(self) -> str:
        return f"LuceneIndex({self.name!r})"

    @jvm.calls_java
    def close(self) -> None:
        """Frees the files. The object can't be used afterwards."""
        self._reader.close()

    @property
    def reader(self) -> Any:
        """The Java IndexReader, for code inside this room."""
        return self._reader

    @jvm.calls_java
    def rows(self) -> int:
        """Document numbers in use, deleted documents included."""
        return self._reader.maxDoc()

    @jvm.calls_java
    def documents(self) -> int:
        """Documents that aren't deleted."""
        return self._reader.numDocs()

    @jvm.calls_java
    def field_statistics(self, field: str = CONTENTS) -> FieldStatistics:
        documents, tokens, postings, positions = jvm.bridge().statistics(self._reader, field)
        return FieldStatistics(documents, tokens, postings, bool(positions), has_term_vectors(self._reader, field))

    @jvm.calls_java
    def analyze(self, texts: Sequence[str], field: str = CONTENTS) -> list[list[str]]:
        """The index's own terms for each text."""
        if not texts:
            return []
        packed = "\n".join(_one_line(text) for text in texts).encode("utf-8", errors="replace")
        found = jvm.received(lambda out: jvm.bridge().analyze(self._analyzer, field, packed, out))
        lines = found.decode("utf-8", errors="replace").split("\n")[:-1]
        return [line.split("\t") if line else [] for line in lines]

    def queries(self, texts: Sequence[str], qids: Sequence[str] | None = None) -> list[Query]:
        """Analysed queries, one a text."""
        names = list(qids) if qids is not None else [""] * len(texts)
        return [
            Query.from_tokens(text, tokens, qid) for text, tokens, qid in zip(texts, self.analyze(texts), names, strict=True)
        ]

    @jvm.calls_java
    def search(
        self,
        queries: Sequence[Query],
        hits: int = 1000,
        *,
        model: Model = BM25Model(),  # noqa: B008  an immutable value
        feedback: Feedback | None = None,
        threads: int = 1,
    ) -> list[Candidates]:
        """The best `hits` documents of each query with Lucene's raw scores; ties in docid order, as Anserini breaks them."""
        if not queries:
            return []
        if feedback is not None:
            queries = self.expand(queries, feedback, model=model, threads=threads)
        return self.ranked(self._searcher(model), queries, hits, threads)

    @jvm.calls_java
    def ranked(self, searcher: Any, queries: Sequence[Query], hits: int, threads: int) -> list[Candidates]:
        """The lists that one of our searchers (Java) over this index's reader finds."""
        packed = "\n".join(_weighted_line(query) for query in queries).encode("utf-8", errors="replace")
        most = len(queries) * (4 + 8 * min(hits, int(self.starts[-1])))
        found = jvm.received(
            lambda out: jvm.bridge().search(searcher, CONTENTS, packed, hits, self._order, threads, out), min(most, jvm.LARGEST)
        )
        ends = list(accumulate(np.frombuffer(found, np.int32, len(queries)).tolist()))
        docs = np.frombuffer(found, np.int32, ends[-1], 4 * len(queries)).copy()
        scores = np.frombuffer(found, np.float32, ends[-1], 4 * len(queries) + docs.nbytes).copy()
        return [Candidates(docs[start:end], scores[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    @jvm.calls_java
    def expand(
        self,
        queries: Sequence[Query],
        feedback: Feedback,
        *,
        model: Model = BM25Model(),  # noqa: B008
        threads: int = 1,
    ) -> list[Query]:
        """The weighted queries that Anserini's feedback method makes. A query it finds nothing for stays as it is."""
        if not queries:
            return []
        if not self.field_statistics().vectors:
            raise IndexProblem(
                f"{self.name}: {type(feedback).__name__} needs document vectors, which this index doesn't store; index again "
                "(kernelsearch.index stores them by default, Pyserini with --storeDocvectors)"
            )
        separator = "\x1f"
        packed = "\n".join(f"{_weighted_line(query)}{separator}{_one_line(query.text)}" for query in queries)
        reranker = feedback.reranker(self._analyzer, CONTENTS)
        lines = jvm.text_of(
            jvm.bridge().expand(
                self._searcher(model),
                reranker,
                self._analyzer,
                CONTENTS,
                packed.encode("utf-8", errors="replace"),
                feedback.depth,
                self._order,
                threads,
            )
        ).split("\n")
        return [_reweighted(query, line) for query, line in zip(queries, lines, strict=True)]

    @jvm.calls_java
    def stored(self, docs: Sequence[int] | np.ndarray, field: str = "raw") -> list[str | None]:
        """A stored field of documents by row, None where it isn't stored."""
        rows = np.ascontiguousarray(docs, dtype=np.int32)
        if not len(rows):
            return []
        data, sizes = jvm.bridge().stored(self._reader, field, rows.tobytes())
        text, lengths = jvm.view(data, np.uint8).tobytes(), jvm.view(sizes, np.int32)
        ends = np.cumsum(np.maximum(lengths, 0))
        return [
            None if size < 0 else text[end - size : end].decode("utf-8", errors="replace")
            for size, end in zip(lengths.tolist(), ends.tolist(), strict=True)
        ]

    @jvm.calls_java
    def document(self, doc: int) -> Any:
        """Lucene's document in a row, a Java object; its fields are those that the index stores."""
        return self._reader.storedFields().document(int(doc))

    @property
    def analyzer(self) -> Any:
        """The Java analyser of queries, which may be replaced by another one."""
        return self._analyzer

    @analyzer.setter
    def analyzer(self, other: Any) -> None:
        self._analyzer = other

    @jvm.calls_java
    def docids(self, start: int = 0, end: int | None = None) -> list[str]:
        """Docids by row, for indexes without a forward index."""
        data, sizes = jvm.bridge().docids(self._reader, "id", start, self.rows() if end is None else end)
        text, lengths = jvm.view(data, np.uint8).tobytes(), jvm.view(sizes, np.int32)
        ends = np.cumsum(lengths)
        return [text[e - s : e].decode("utf-8", errors="replace") for s, e in zip(lengths.tolist(), ends.tolist(), strict=True)]

    def _searcher(self, model: Model) -> Any:
        with self._lock:
            if model not in self._searchers:
                self._searchers[model] = jvm.bridge().searcher(self._reader, model.similarity())
            return self._searchers[model]


def analyzer(language: str) -> Any:
    """Anserini's analyser for a language code; `en` stems with Porter, `whitespace` takes the text as it is."""
    from jnius import autoclass

    if language == "en":
        return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").newDefaultInstance()
    if language == "whitespace":
        return autoclass("org.apache.lucene.analysis.core.WhitespaceAnalyzer")()
    known = autoclass("io.anserini.analysis.AnalyzerMap")
    if not known.analyzerMap.containsKey(language):
        names = sorted([*(key for key in known.analyzerMap.keySet().toArray()), "en", "whitespace"])
        raise OptionError(f"--language: {language!r} is not one of {', '.join(names)}")
    return known.getLanguageSpecificAnalyzer(language)


def english_with_stopwords(stopwords: str) -> Any:
    """Anserini's English analyser with the stop words of a file, one per line."""
    from jnius import autoclass

    return autoclass("io.anserini.analysis.DefaultEnglishAnalyzer").fromArguments("porter", False, stopwords)


def _reader(path: Path) -> Any:
    import jnius

    try:
        return jvm.bridge().open(jvm.path_of(path))
    except jnius.JavaException as problem:
        raise IndexProblem(f"{path}: {_why_unreadable(problem)}") from None


def _why_unreadable(problem: BaseException) -> str:
    name = jvm.java_class_of(problem)
    if name.endswith("IndexNotFoundException"):
        return "not a Lucene index"
    if name.endswith("IndexFormatTooNewException"):
        return "written by a newer Lucene than this one reads; use the pyserini it was built with"
    if name.endswith("IndexFormatTooOldException"):
        return "written by an older Lucene than this one reads; index the collection again"
    if name.endswith("CorruptIndexException") or name.endswith("EOFException") or name.endswith("NoSuchFileException"):
        return "a damaged Lucene index (a file is missing or cut short); index the collection again"
    detail = " ".join(str(problem).split())[:200]
    # Lucene 9 complains of Lucene 10's indexes by these words, not by an exception of their own.
    if "is in the future" in detail or ("codec" in detail.lower() and "does not exist" in detail.lower()):
        return "written by a newer Lucene than this one reads; use the pyserini it was built with"
    return f"cannot be opened ({detail})"


def _one_line(text: str) -> str:
    return " ".join(text.replace("\x1f", " ").split())


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
