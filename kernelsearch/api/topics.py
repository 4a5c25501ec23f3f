"""From topics to ranked lists: the function that all commands use to run topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.errors import IndexReplaced
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.sequences import chunks
from kernelsearch.core.types import Candidates

if TYPE_CHECKING:
    from kernelsearch.rerankers.base import OpenedIndex

#: Default number of topics per batch.
BATCH_SIZE = 64
#: Smallest number of batches per process.
BATCHES = 8


class Topic(NamedTuple):
    """A topic; `ranked` is its list of (docid, score) where a run is reranked."""

    qid: str
    text: str
    ranked: Sequence[tuple[str, float]] | None = None


class TopicList(NamedTuple):
    """The ranked list of a topic: docids, and the same documents as rows and scores."""

    qid: str
    docids: list[str]
    candidates: Candidates

    @property
    def scores(self) -> list[float]:
        """The scores as Python floats."""
        scores: list[float] = self.candidates.scores.tolist()
        return scores


@dataclass(frozen=True)
class _BatchSettings:
    """The arguments that all batches share, as in `run_topics`, and the fingerprint of the index that is searched."""

    threads: int
    source: str
    fingerprint: str


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
    """Yields the list of each topic, in the order of `topics`, as batches become ready.

    Parameters
    ----------
    pipeline : the first stage and the rerankers
    topics : the topics to search, or, where they have a list, to rerank
    engine : where batches are computed; default: this process. The lists are the same for every engine
    batch_size : topics per batch
    threads : threads per batch, which the processes of an engine share
    source : the name, in messages, of the run that the topics' lists come from
    progress : gets the number of topics
    """
    chosen = list(topics)
    label = "rerank" if chosen and chosen[0].ranked is not None else "search"
    if engine is None or any(reranker.in_one_process for reranker in pipeline.rerankers):
        engine = LocalEngine()
    settings = _BatchSettings(threads, source, pipeline.index.fingerprint)
    if engine.processes > 1:  # smaller batches where there are few topics, so that all processes get some
        batch_size = min(batch_size, -(-len(chosen) // (BATCHES * engine.processes)) or 1)
    batches = list(chunks(chosen, batch_size))
    run_batch = partial(_run_batch, replace(settings, threads=max(1, threads // engine.processes)))
    computed = engine.map_shared(run_batch, batches, pipeline, label=label)
    index = pipeline.index  # whose forward index is opened with the first list: a search that fails has no need of it
    with progress("searching", total=len(chosen), unit="query") as bar:
        for batch, lists in zip(batches, computed, strict=True):
            for topic, final in zip(batch, lists, strict=True):
                yield TopicList(topic.qid, index.forward.docids.take(final.docs), final)
                bar.update()


class _Lists(list[Candidates]):
    """Ranked lists that are pickled as two long arrays instead of two per list, which takes a quarter of the time."""

    def __reduce__(self) -> tuple[Any, ...]:
        if len({(ranked.docs.dtype, ranked.scores.dtype) for ranked in self}) != 1:
            return _Lists, (list(self),)
        docs, scores = (
            np.concatenate(arrays) for arrays in zip(*((ranked.docs, ranked.scores) for ranked in self), strict=True)
        )
        return _split, (docs, scores, [ranked.depth for ranked in self], [ranked.fallbacks for ranked in self])


def _split(
    docs: NDArray[np.int32],
    scores: NDArray[np.floating],
    depths: Sequence[int],
    fallbacks: Sequence[tuple[tuple[str, str], ...]],
) -> _Lists:
    """The lists whose documents and scores are one after the other in `docs` and `scores`; each is as long as `depths` says."""
    ends = np.cumsum(depths).tolist()
    parts = [slice(end - depth, end) for end, depth in zip(ends, depths, strict=True)]
    return _Lists(Candidates(docs[part], scores[part], reasons) for part, reasons in zip(parts, fallbacks, strict=True))


def _run_batch(settings: _BatchSettings, topics: Sequence[Topic], pipeline: Pipeline) -> _Lists:
    """Searches topics, or reranks their lists, in this process."""
    index, hits = pipeline.index, pipeline.first.hits
    if index.fingerprint != settings.fingerprint:  # opened by another process, later
        raise IndexReplaced("the index was replaced during the search", path=index.name)
    queries = index.lucene.queries([topic.text for topic in topics], [topic.qid for topic in topics])
    if topics[0].ranked is None:
        return _Lists(pipeline.search(queries, threads=settings.threads))
    lists = [run_candidates(index, list(topic.ranked or ())[:hits], topic.qid, settings.source) for topic in topics]
    return _Lists(pipeline.rerank(queries, lists, threads=settings.threads))


def run_candidates(index: OpenedIndex, ranked: Sequence[tuple[str, float]], qid: str, source: str) -> Candidates:
    """The list `ranked` of (docid, score) as candidates; raises InputError with docids that are not in the index.

    `qid` and `source` name the topic and the run in the message.
    """
    docids = [docid for docid, _ in ranked]
    rows = index.forward.require_rows(docids, label=f"{source}: topic {qid}", collection=index.name)
    return Candidates(rows, np.array([score for _, score in ranked], dtype=np.float64))
