"""A query explained: its list before and after one method, and why a document is ranked where it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.results import earlier_ranks
from kernelsearch.core.errors import InputError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import Explanation


class ListEntry(NamedTuple):
    """A document in a reranked list: its rank and score, and its rank before (from 1; None where it was not listed)."""

    rank: int
    docid: str
    score: float
    before: int | None

    @property
    def moved(self) -> int | None:
        """How many ranks the document has risen; None where it was not listed before."""
        return None if self.before is None else self.before - self.rank


@dataclass(frozen=True)
class ExplainedQuery:
    """A query with its lists before and after the method of a pipeline.

    `explanation` is that of one document; None where the method could not act on the query.
    """

    pipeline: Pipeline
    query: Query
    before: Candidates
    after: Candidates
    explanation: Explanation | None

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.pipeline.rerankers[0].name

    def entries_before(self, top: int) -> list[ListEntry]:
        """The first `top` documents of the first stage."""
        return self._entries(self.before.top(top))

    def entries_after(self, top: int) -> list[ListEntry]:
        """The first `top` documents after the method."""
        return self._entries(self.after.top(top))

    def _entries(self, ranked: Candidates) -> list[ListEntry]:
        docids = self.pipeline.index.forward.docids.take(ranked.docs)
        columns = zip(docids, ranked.scores.tolist(), earlier_ranks(self.before, ranked), strict=True)
        return [ListEntry(rank, *column) for rank, column in enumerate(columns, 1)]

    def to_dict(self, top: int) -> dict[str, Any]:
        """Both lists, `top` documents of each, and the explanation as plain data for JSON."""
        return {
            "query": self.query.text,
            "before": [{"rank": entry.rank, "docid": entry.docid, "score": entry.score} for entry in self.entries_before(top)],
            "list": [entry._asdict() for entry in self.entries_after(top)],
            "explanation": self.explanation.to_dict() if self.explanation else None,
        }


def explain_query(
    pipeline: Pipeline, text: str, docid: str | None = None, *, plot: str | Path | None = None, threads: int = 1
) -> ExplainedQuery:
    """Searches and explains the document `docid`, by default the best one after reranking.

    The pipeline has one method. `plot` is the PNG or SVG file that its plot is drawn into. Raises InputError where no document
    matches, and where `docid` is not in the list.
    """
    index, reranker, context = pipeline.index, pipeline.rerankers[0], pipeline.context(threads)
    query = index.query(text)
    before = pipeline.retrieve([query], threads=threads)[0]
    after = pipeline.rerank([query], [before], threads=threads)[0]
    if not after.depth:
        raise InputError(f"--query: no document matches {text!r}")
    row = int(after.docs[0]) if docid is None else index.row(docid, "--docid", after)
    explanation = None if after.fallbacks else reranker.explain(query, before, row, context)
    if plot is not None:
        reranker.plot(query, before, row if docid is not None else None, Path(plot), context)
    return ExplainedQuery(pipeline, query, before, after, explanation)
