"""Anserini's SimpleSearcher, for what the bridge doesn't do: boosted fields, query generators, Lucene queries."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from kernelsearch.core.errors import Flag, InputError, JavaError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, Feedback, Model, Rocchio


@jvm.calls_java
def simple_searcher(lucene: LuceneIndex, model: Model, feedback: Feedback | None) -> Any:
    """Returns a SimpleSearcher (Java) over `lucene` with `model` and `feedback`.

    Raises InputError for shards and unknown models, VectorsMissing for feedback on an index without document vectors.
    """
    from jnius import autoclass

    if lucene.shards.sharded:
        raise InputError(
            "Anserini's SimpleSearcher opens one index, not shards; boosted fields, query generators and "
            "Lucene queries need one index",
            path=lucene.name,
        )
    if feedback is not None:
        lucene.require_vectors(feedback)
    searcher = autoclass("io.anserini.search.SimpleSearcher")(jvm.path_of(lucene.path), lucene.analyzer)
    if isinstance(model, BM25Model):
        searcher.set_bm25(model.k1, model.b)
    elif isinstance(model, DirichletModel):
        searcher.set_qld(model.mu)
    else:
        raise InputError("Anserini's SimpleSearcher ranks with BM25 or query likelihood with Dirichlet smoothing only")
    if isinstance(feedback, RM3):
        searcher.set_rm3(None, feedback.terms, feedback.docs, feedback.original_weight, False, feedback.english)
    elif isinstance(feedback, Rocchio):
        searcher.set_rocchio(
            None,
            feedback.top_terms,
            feedback.top_docs,
            feedback.bottom_terms,
            feedback.bottom_docs,
            feedback.alpha,
            feedback.beta,
            feedback.gamma,
            False,
            feedback.negative,
        )
    return searcher


@jvm.calls_java
def simple_search(
    searcher: Any, query: Any, hits: int, generator: Any = None, fields: Mapping[str, float] | None = None
) -> Candidates:
    """Returns the best `hits` documents of a query.

    `searcher` is a SimpleSearcher (Java), `query` a text or a Lucene Query (Java), `generator` Anserini's QueryGenerator
    (Java), `fields` maps fields to boosts.
    """
    with _printed_errors_raised():
        if not fields:
            results = searcher.search(generator, query, hits) if generator else searcher.search(query, hits)
        else:
            from jnius import autoclass

            boosts = autoclass("java.util.HashMap")()
            number = autoclass("java.lang.Float")
            for field, boost in fields.items():
                boosts.put(field, number(float(boost)))
            results = searcher.search_fields(*([generator] if generator else []), query, boosts, hits)
    docs = np.fromiter((hit.lucene_docid for hit in results), dtype=np.int32)
    return Candidates(docs, np.fromiter((hit.score for hit in results), dtype=np.float32))


@contextmanager
def _printed_errors_raised() -> Iterator[None]:
    """Raises JavaError where this thread prints on Java's standard error in the block.

    Anserini catches exceptions, prints their stack traces and goes on as if nothing was found. The thread must stay attached to
    Java until the end of the block.
    """
    jvm.bridge().startCapture()
    try:
        yield
    finally:
        printed = jvm.bridge().endCapture()
    if printed:
        raise JavaError(f"Java: {' '.join(printed.split())[:300]}")


@jvm.calls_java
def search_by_text(
    lucene: LuceneIndex,
    queries: Sequence[Query],
    hits: int,
    model: Model,
    feedback: Feedback | None,
    fields: Sequence[tuple[str, float]],
    dismax: float | None,
    query_side: bool,
) -> list[Candidates]:
    """Returns the best `hits` documents of `lucene` per query, from the queries' texts, by `model` and `feedback`.

    `fields` are (name, boost); with `dismax`, a tie breaker, a document's score is that of its best field. With `query_side`,
    query terms have BM25 weights too.
    """
    from jnius import autoclass

    for name, _ in fields:
        if not lucene.field_statistics(name).documents:
            raise InputError(
                f"{lucene.name} has no field {name!r}; `index --fields` chooses the fields of an index", option=Flag("fields")
            )
    searcher = simple_searcher(lucene, model, feedback)
    generator = None
    if dismax is not None:
        generator = autoclass("io.anserini.search.query.DisjunctionMaxQueryGenerator")(dismax)
    elif query_side:
        if not isinstance(model, BM25Model):
            raise InputError("ranks with BM25, not with query likelihood", option=Flag("bm25qs"))
        generator = autoclass("io.anserini.search.query.QuerySideBm25QueryGenerator")(model.k1, model.b, lucene.reader)
    try:
        return [simple_search(searcher, query.text, hits, generator, dict(fields)) for query in queries]
    finally:
        searcher.close()


@jvm.calls_java
def document_by_field(searcher: Any, field: str, value: str) -> str | None:
    """Returns the docid of the document whose field has this value; None where there is none. `searcher` is Java's."""
    document = searcher.doc_by_field(field, value)
    return None if document is None else str(document.get("id"))


@jvm.calls_java
def model_of(similarity: Any) -> Model:
    """Returns the ranking model of `similarity`, Lucene's (Java); InputError for others than BM25 and Dirichlet."""
    description = similarity.toString()
    if match := re.fullmatch(r"BM25\(k1=([^,]+),b=([^,)]+)\)", description):
        return BM25Model(float(match[1]), float(match[2]))
    if match := re.fullmatch(r"LM Dirichlet\(([^)]+)\)", description):
        return DirichletModel(float(match[1]))
    raise InputError(f"the searcher ranks with {description}; methods know BM25 and query likelihood with Dirichlet smoothing")
