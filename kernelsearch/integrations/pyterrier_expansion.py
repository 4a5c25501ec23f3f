"""Query expansion in PyTerrier: `pert` as a transformer from results to expanded queries."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyterrier as pt

from kernelsearch.core.options import Option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.integrations import frames
from kernelsearch.integrations.hits import IndexSource, open_index
from kernelsearch.integrations.pyterrier_base import IndexTransformer, format_options
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.pert.reranker import PerturbationReranker

if TYPE_CHECKING:
    from kernelsearch.api.index import Index


class Expansion(IndexTransformer):
    """Expands queries from their results as `pert` does: `bm25 >> ks.Expansion(index) >> bm25`.

    It returns queries with a column `query_toks` for the next retriever; the original query is in `query_0`.

    Parameters
    ----------
    index : a folder, an opened index or a Lucene searcher
    options : the options of `pert`
    """

    def __init__(self, index: IndexSource, **options: Any) -> None:
        self.index = open_index(index)
        self.options = options
        self.check()

    def __repr__(self) -> str:
        return f"Expansion({self.index.name!r}{format_options(self.options)})"

    def declared_options(self) -> Sequence[Option]:
        """The options of `pert`."""
        return registry.method("pert").options

    def check(self) -> None:
        """Makes the reranker that expands."""
        self.reranker = PerturbationReranker(self.index, **self.options)

    def __reduce__(self) -> tuple[Any, ...]:
        return _expansion, (self.index, self.options)

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Takes a frame `inp` of results and returns a frame of expanded queries."""
        pt.validate.result_frame(inp, extra_columns=["query", "score"], context=self)
        columns = [name for name in pt.model.query_columns(inp) if name != "query_toks"]
        if inp.empty:
            return pt.model.push_queries(inp[columns], keep_original=True).assign(query_toks=pd.Series(dtype=object))
        firsts, lists = frames.read_results(self.index, inp)
        queries = frames.read_queries(self.index, firsts)
        toks = [self._expand(query, ranked) for query, ranked in zip(queries, lists, strict=True)]
        return pt.model.push_queries(firsts[columns], keep_original=True).assign(query_toks=toks).reset_index(drop=True)

    def _expand(self, query: Query, ranked: Candidates) -> dict[str, float]:
        with suppress(CannotAct):  # then the query is left unexpanded
            query = self.reranker.expanded(query, ranked)
        return dict(zip(query.terms, query.weights, strict=True))


def _expansion(index: Index, options: dict[str, Any]) -> Expansion:
    return Expansion(index, **options)
