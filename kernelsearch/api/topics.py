"""Searching and reranking many topics in parts, with any engine."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import FirstStage, Pipeline, candidates_from_run, chunks
from kernelsearch.core.types import Candidates, Query
from kernelsearch.engines.base import Engine, keep_open, opened_once
from kernelsearch.trec.runs import RankedList


class Topic(NamedTuple):
    """A topic, with its list of (docid, score) where a run is reranked."""

    qid: str
    text: str
    ranked: Sequence[tuple[str, float]] | None = None


@dataclass(frozen=True)
class SearchPlan:
    """What a worker needs to know to search as the driver would: it opens the index itself, by its path."""

    index: Index
    first: FirstStage
    methods: tuple[tuple[str, Mapping[str, Any]], ...]
    threads: int = 1
    remove_query: bool = False
    java_heap: str | None = None
    run: str = ""  #: the run file's name, for messages
    artefacts: str | None = None  #: KERNELSEARCH_ARTEFACTS of the driver

    @property
    def key(self) -> str:
        index = self.index
        described = (index.shards.given, index.fingerprint, index.language, self.first, self.methods, self.artefacts)
        return f"search {described!r}"

    def open(self) -> Pipeline:
        """The pipeline of this plan."""
        from kernelsearch.lucene import jvm

        if self.artefacts is not None:
            os.environ["KERNELSEARCH_ARTEFACTS"] = self.artefacts
        if self.java_heap and not jvm.running():
            jvm.configure(heap=self.java_heap)
        return Pipeline(self.index, self.first, [(name, dict(options)) for name, options in self.methods])


class Part(NamedTuple):
    """The lists of some topics, and for each reranker how many queries it left alone and why."""

    lists: list[RankedList]
    kept: list[Counter[str]]


def search_topics(
    engine: Engine, plan: SearchPlan, pipeline: Pipeline, topics: Sequence[Topic], size: int
) -> Iterator[RankedList]:
    """The final list of each topic, in their order; parts are of `size` topics. `pipeline` is the plan's, opened here."""
    keep_open(plan.key, pipeline)
    label = "rerank" if topics and topics[0].ranked is not None else "search"
    for part in engine.map(partial(search_part, plan), list(chunks(topics, size)), label=label):
        for reranker, kept in zip(pipeline.rerankers, part.kept, strict=True):
            reranker.kept.update(kept)
        yield from part.lists


def search_part(plan: SearchPlan, topics: Sequence[Topic]) -> Part:
    """Searches for some topics (or reranks their lists) in this process."""
    pipeline: Pipeline = opened_once(plan.key, plan.open)
    before = [Counter(reranker.kept) for reranker in pipeline.rerankers]
    index, first = pipeline.index, pipeline.first
    queries = index.lucene.queries([topic.text for topic in topics], [topic.qid for topic in topics])
    if topics[0].ranked is None:
        found = pipeline.search(queries, threads=plan.threads)
    else:
        lists = [candidates_from_run(index, list(topic.ranked or ())[: first.hits], topic.qid, plan.run) for topic in topics]
        found = pipeline.rerank(queries, lists, threads=plan.threads)
    named = [_named(index, query, one, plan.remove_query) for query, one in zip(queries, found, strict=True)]
    kept = []
    for reranker, old in zip(pipeline.rerankers, before, strict=True):
        kept.append(reranker.kept - old)
        reranker.kept = old  # the driver counts
    return Part(named, kept)


def _named(index: Index, query: Query, found: Candidates, remove_query: bool) -> RankedList:
    docids, scores = index.forward.docids.take(found.docs), found.scores.tolist()
    if remove_query and query.qid in docids:
        place = docids.index(query.qid)
        del docids[place], scores[place]
    return query.qid, docids, scores
