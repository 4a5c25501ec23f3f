"""A query explained: its list before and after one method, and why a document is ranked where it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.results import earlier_ranks
from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.ranking_models import first_stage_term_scores, idf
from kernelsearch.lucene.models import BM25Model, DirichletModel
from kernelsearch.rerankers.base import CannotAct, Context, Reranker
from kernelsearch.rerankers.explanations import Contribution, Explanation, Symbol, Term, Text


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
    """A query with its lists before and after the methods of a pipeline.

    `explanation` is that of one document; None where no method could act on the query, for the reasons in `after.fallbacks`.
    """

    pipeline: Pipeline
    query: Query
    before: Candidates
    after: Candidates
    explanation: Explanation | None

    @property
    def method(self) -> str:
        """The names of the methods, or "first stage"."""
        return ", ".join(reranker.name for reranker in self.pipeline.rerankers) or "first stage"

    def entries_before(self, top: int) -> list[ListEntry]:
        """The first `top` documents of the first stage."""
        return self._entries(self.before.top(top))

    def entries_after(self, top: int) -> list[ListEntry]:
        """The first `top` documents after the methods."""
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
    pipeline: Pipeline,
    text: str,
    docid: str | None = None,
    *,
    qid: str = "",
    plot: str | Path | None = None,
    threads: int = 1,
) -> ExplainedQuery:
    """Searches for `text` with `threads` threads and explains the document `docid`, by default the best one after `pipeline`.

    `qid` is the topic id of the query, by which files of query vectors and runs know it. Without a method the score of the
    first stage is explained. `plot` is the PNG or SVG file that the plot of the only method is drawn into. Raises
    InputError where no document matches, where `docid` is not in the list, and where the method has nothing to plot.
    """
    query, before, after = pipeline.run(text, qid, threads=threads)
    if not after.depth:
        raise InputError(f"no document matches {text!r}", option=Flag("query"))
    row = int(after.docs[0]) if docid is None else pipeline.index.row(docid, "docid", after)
    if not pipeline.rerankers:
        if plot is not None:
            raise InputError("only methods have a plot; name one with ", Flag("rerank"), option=Flag("plot"))
        return ExplainedQuery(pipeline, query, before, after, explain_first_stage(pipeline, query, row))
    context = pipeline.context(threads)
    explanation, fallbacks = explain_reranked(pipeline.rerankers, query, before, after, row, context)
    after = replace(after, fallbacks=fallbacks)
    if plot is not None:
        reranker, *others = pipeline.rerankers
        if others:
            raise InputError("draws one method; name one with ", Flag("rerank"), option=Flag("plot"))
        try:
            reranker.plot(query, before, row if docid is not None else None, Path(plot), context)
        except CannotAct as reason:
            raise InputError(f"{reranker.name} has nothing to plot for {text!r}: {reason}", option=Flag("plot")) from None
    return ExplainedQuery(pipeline, query, before, after, explanation)


def explain_reranked(
    rerankers: Sequence[Reranker[Any]], query: Query, before: Candidates, after: Candidates, row: int, context: Context
) -> tuple[Explanation | None, tuple[tuple[str, str], ...]]:
    """Why the document in row `row` has its score in `after`, the list that `rerankers` made of `before` one after the other.

    `query` and `context` are those that they made it with. The explanation is that of the last method that acted on the query,
    over the list of the methods before it; its note `reranked` names these. None where no method acted. With it come the
    methods that didn't act, with their reasons.
    """
    fallbacks = after.fallbacks
    idle = {name for name, _ in fallbacks}
    acting = [reranker for reranker in rerankers if reranker.name not in idle]
    while acting:
        *earlier, last = acting
        listed = before
        for reranker in earlier:
            listed = reranker.apply(query, listed, context)
        try:
            explanation = last.explain(query, listed, row, context)
        except CannotAct as reason:
            fallbacks, acting = (*fallbacks, (last.name, str(reason))), earlier
            continue
        if earlier:
            explanation.notes["reranked"] = [reranker.name for reranker in earlier]
        return explanation, fallbacks
    return None, fallbacks


def explain_first_stage(pipeline: Pipeline, query: Query, row: int) -> Explanation:
    """The first-stage score of a document as a sum over the terms of the query, which feedback may have expanded.

    `pipeline` has the first stage, `row` is the document's. Raises InputError for the searches that Anserini's own searcher
    makes (weighted fields, query-side BM25).
    """
    first, index = pipeline.first, pipeline.index
    if first.fields or first.query_side:
        raise InputError(Flag("fields"), " and ", Flag("bm25qs"), ": scores of these searches can't be explained by term")
    expander = index.expander if first.feedback is not None else None
    query = first.expand(index.lucene, [query], expander=expander)[0]
    forward, model = index.forward, first.model
    numbers, docs = forward.term_ids(query.terms), np.array([row], dtype=np.int32)
    parts = first_stage_term_scores(forward, model, numbers, query.weights, docs)[0]
    frequencies = forward.term_frequencies(docs, numbers)[0]
    documents = forward.statistics.documents
    length, average = float(forward.norm_lengths[row]), float(forward.statistics.average_length)
    contributions = []
    for term, number, weight, value, frequency in zip(query.terms, numbers, query.weights, parts, frequencies, strict=True):
        df = int(forward.df[number]) if number >= 0 else 0
        times = f"{frequency} time{'' if frequency == 1 else 's'} here" if frequency else "not here"
        detail = f", in {df} of {documents} documents"
        if isinstance(model, BM25Model) and df:
            detail += f", idf {float(idf(df, documents)):.4f}"
        detail += f", length {length:g} (average {average:.1f})" if frequency else ""
        detail += f", weight {weight:.4g}" if weight != 1 else ""
        contributions.append(Contribution(Term(term), float(value), Text(Symbol(f"tf {frequency}", times), detail)))
    name = {BM25Model: "BM25", DirichletModel: "query likelihood"}.get(type(model), "query likelihood (Jelinek-Mercer)")
    name += f" + {type(first.feedback).__name__}" if first.feedback is not None else ""
    notes = {"model": asdict(model), "length": length, "average_length": average}
    contributions.sort(key=lambda part: -part.value)
    score = float(sum(np.asarray(parts, dtype=np.float64)))
    return Explanation(name, forward.docids.take(docs)[0], score, tuple(contributions), notes)
