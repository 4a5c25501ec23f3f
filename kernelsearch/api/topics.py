"""From topics to ranked lists: the one function that every command and integration runs topics with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Candidates

if TYPE_CHECKING:
    from kernelsearch.rerankers.base import OpenedIndex

#: Topics per batch, unless asked otherwise.
BATCH_SIZE = 64


class Topic(NamedTuple):
    """A topic, with its list of (docid, score) where a run is reranked."""

    qid: str
    text: str
    ranked: Sequence[tuple[str, float]] | None = None


class TopicList(NamedTuple):
    """A topic's ranked list: as rows and scores, and with the docids of the rows."""

    qid: str
    docids: list[str]
    candidates: Candidates

    @property
    def scores(self) -> list[float]:
        """The scores as plain numbers."""
        scores: list[float] = self.candidates.scores.tolist()
        return scores


@dataclass(frozen=True)
class _Batch:
    """How every batch is run. `source` names the run file in messages."""

    threads: int
    source: str


def run_topics(
    pipeline: Pipeline,
    topics: Iterable[Topic],
    *,
    engine: Engine | None = None,
    batch_size: int = BATCH_SIZE,
    threads: int = 1,
    source: str = "run",
    progress: Progress = silent,
) -> Iterator[TopicList]:
    """Yields the final list of each topic, in their order, as batches become ready.

    Topics with a list of their own are reranked, the others are searched. Batches are cut the same way for every engine, so
    that lists do not depend on where they were computed. `source` names the run that lists come from in messages.
    """
    chosen = list(topics)
    label = "rerank" if chosen and chosen[0].ranked is not None else "search"
    batches = list(chunks(chosen, batch_size))
    run_batch = partial(_run_batch, _Batch(threads, source))
    with progress("searching", total=len(chosen), unit="query") as bar:
        for lists in (engine or LocalEngine()).map_shared(run_batch, batches, pipeline, label=label):
            for found in lists:
                yield found
                bar.update()


def _run_batch(batch: _Batch, topics: Sequence[Topic], pipeline: Pipeline) -> list[TopicList]:
    """Searches for some topics (or reranks their lists) in this process."""
    index, hits = pipeline.index, pipeline.first.hits
    queries = index.lucene.queries([topic.text for topic in topics], [topic.qid for topic in topics])
    if topics[0].ranked is None:
        found = pipeline.search(queries, threads=batch.threads)
    else:
        lists = [run_candidates(index, list(topic.ranked or ())[:hits], topic.qid, batch.source) for topic in topics]
        found = pipeline.rerank(queries, lists, threads=batch.threads)
    docids = index.forward.docids
    return [TopicList(query.qid, docids.take(ranked.docs), ranked) for query, ranked in zip(queries, found, strict=True)]


def run_candidates(index: OpenedIndex, ranked: Sequence[tuple[str, float]], qid: str, source: str) -> Candidates:
    """A run's list as candidates; a document that the index doesn't have is refused by name."""
    docids = [docid for docid, _ in ranked]
    rows = index.forward.require_rows(docids, label=f"{source}: topic {qid}", collection=index.name)
    return Candidates(rows, np.array([score for _, score in ranked], dtype=np.float64))
