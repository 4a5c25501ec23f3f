"""Pipelines that PyTerrier's `compile` fuses: frames between our transformers over one index are not made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyterrier as pt

from kernelsearch.core.types import Candidates
from kernelsearch.integrations import frames

if TYPE_CHECKING:
    from kernelsearch.integrations.pyterrier import KernelTransformer, Retriever


class FusedRetriever(pt.Transformer):
    """A retriever and rerankers over the same index in one step; the results are those of `retriever >> reranker >> ...`.

    Attributes: `retriever` and `rerankers`, the transformers of the pipeline, whose parameters stay in force.
    """

    def __init__(self, retriever: Retriever, rerankers: tuple[KernelTransformer, ...]) -> None:
        self.retriever = retriever
        self.rerankers = rerankers

    def __repr__(self) -> str:
        return f"FusedRetriever({' >> '.join(map(repr, (self.retriever, *self.rerankers)))})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FusedRetriever):
            return NotImplemented
        return (self.retriever, self.rerankers) == (other.retriever, other.rerankers)

    def __hash__(self) -> int:
        return hash(("FusedRetriever", self.retriever))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Takes a frame `inp` of queries and returns a frame of reranked results."""
        queries, read, lists = self.retriever.retrieve(inp)
        if "query" not in queries.columns:
            # As the first reranker, which needs the text, refuses it.
            pt.validate.result_frame(frames.make_results(self.retriever.index, queries, lists), extra_columns=["query"])
        matched = [number for number, ranked in enumerate(lists) if ranked.depth]
        queries, read = queries.iloc[matched], [read[number] for number in matched]
        lists = [_doubled(lists[number]) for number in matched]
        for reranker in self.rerankers if lists else ():
            lists = [_doubled(ranked) for ranked in reranker.pipeline.rerank(read, lists)]
        return frames.make_results(self.retriever.index, queries, lists, columns=frames.all_columns(queries))

    def subtransformers(self) -> dict[str, Any]:
        """The transformers of the pipeline, for PyTerrier's schematics."""
        return {"retriever": self.retriever, "rerankers": list(self.rerankers)}


class FusedFeatures(pt.Transformer):
    """Scores of several methods as the column `features`: the results of `klsa ** mslm`, without a Python call per row.

    Attributes: `transformers`, in the order of the features.
    """

    def __init__(self, transformers: tuple[KernelTransformer, ...]) -> None:
        self.transformers = transformers

    def __repr__(self) -> str:
        return f"FusedFeatures({' ** '.join(map(repr, self.transformers))})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FusedFeatures):
            return NotImplemented
        return self.transformers == other.transformers

    def __hash__(self) -> int:
        return hash(("FusedFeatures", self.transformers))

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Takes a frame `inp` of results and returns it with a column `features`, one array per document."""
        pt.validate.result_frame(inp, extra_columns=["query", "score"], context=self)
        if "features" in inp.columns:
            raise ValueError(f"{self!r}: results have features already")
        keys = ["qid", "docno"]
        out = inp.reset_index(drop=True)
        columns = []
        for number, transformer in enumerate(self.transformers):
            transformed = transformer.transform(inp)
            if not number and (new := [name for name in transformed.columns if name not in inp.columns]):
                out = out.merge(transformed[[*keys, *new]], on=keys, how="left")
            scores = out[keys].merge(transformed[[*keys, "score"]], on=keys, how="left")["score"]
            columns.append(scores.fillna(0.0).to_numpy(dtype=np.float64))
        return out.assign(features=pd.Series(list(np.column_stack(columns)), index=out.index, dtype=object))

    def fuse_feature_union(self, other: pt.Transformer, is_left: bool) -> pt.Transformer | None:
        """The features of this transformer and of `other`; `is_left`: the other's come first."""
        if not isinstance(other, FusedFeatures):
            # A method's transformer fuses itself with this one.
            return None
        first, second = (self, other) if is_left else (other, self)
        return FusedFeatures((*first.transformers, *second.transformers))

    def subtransformers(self) -> dict[str, Any]:
        """The transformers of the features, for PyTerrier's schematics."""
        return {"transformers": list(self.transformers)}


def _doubled(ranked: Candidates) -> Candidates:
    """A list with scores in double precision, which a frame would give them: methods compute in the precision that they get."""
    return Candidates(ranked.docs, ranked.scores.astype(np.float64))
