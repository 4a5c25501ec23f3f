"""Anserini's own SimpleSearcher, for what our bridge leaves to it: boosted fields, query generators, Lucene queries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.lucene.models import RM3, BM25Model, DirichletModel, Feedback, Model, Rocchio


@jvm.calls_java
def simple_searcher(index: LuceneIndex, model: Model, feedback: Feedback | None) -> Any:
    """A SimpleSearcher (Java) with our settings."""
    from jnius import autoclass

    if index.shards.sharded:
        raise InputError(
            f"{index.name}: Anserini's SimpleSearcher opens one index, not shards; boosted fields, query generators and Lucene "
            "queries need one index"
        )
    searcher = autoclass("io.anserini.search.SimpleSearcher")(jvm.path_of(index.path), index.analyzer)
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
    """A query's list. `query` is a text or a Lucene query, `generator` Anserini's, `fields` maps fields to boosts."""
    if not fields:
        found = searcher.search(generator, query, hits) if generator else searcher.search(query, hits)
    elif not isinstance(query, str):
        raise InputError("fields: can't be chosen for a Lucene query, which names its own")
    else:
        from jnius import autoclass

        boosts = autoclass("java.util.HashMap")()
        number = autoclass("java.lang.Float")
        for field, boost in fields.items():
            boosts.put(field, number(float(boost)))
        found = searcher.search_fields(*([generator] if generator else []), query, boosts, hits)
    docs = np.fromiter((hit.lucene_docid for hit in found), dtype=np.int32)
    return Candidates(docs, np.fromiter((hit.score for hit in found), dtype=np.float32))


@jvm.calls_java
def search_by_text(
    index: LuceneIndex,
    queries: Sequence[Query],
    hits: int,
    model: Model,
    feedback: Feedback | None,
    fields: Sequence[tuple[str, float]],
    dismax: float | None,
) -> list[Candidates]:
    """Lists of boosted `fields` (with `dismax`, the best field counts), or without fields, of BM25 on the query's side too."""
    from jnius import autoclass

    searcher = simple_searcher(index, model, feedback)
    generator = None
    if dismax is not None:
        generator = autoclass("io.anserini.search.query.DisjunctionMaxQueryGenerator")(dismax)
    elif not fields:
        if not isinstance(model, BM25Model):
            raise InputError("--bm25qs: ranks with BM25, not with query likelihood")
        generator = autoclass("io.anserini.search.query.QuerySideBm25QueryGenerator")(model.k1, model.b, index.reader)
    try:
        return [simple_search(searcher, query.text, hits, generator, dict(fields)) for query in queries]
    finally:
        searcher.close()


@jvm.calls_java
def document_by_field(searcher: Any, field: str, value: str) -> str | None:
    """The docid of the document whose field has this value."""
    found = searcher.doc_by_field(field, value)
    return None if found is None else found.get("id")


@jvm.calls_java
def similarity_of(model: Model) -> Any:
    """One of our models as a Lucene similarity (Java)."""
    return model.similarity()


@jvm.calls_java
def model_of(similarity: Any) -> Model:
    """A Lucene similarity (Java) as one of our models."""
    described = similarity.toString()
    if found := re.fullmatch(r"BM25\(k1=([^,]+),b=([^,)]+)\)", described):
        return BM25Model(float(found[1]), float(found[2]))
    if found := re.fullmatch(r"LM Dirichlet\(([^)]+)\)", described):
        return DirichletModel(float(found[1]))
    raise InputError(f"the searcher ranks with {described}; methods know BM25 and query likelihood with Dirichlet smoothing")
