"""PyTerrier transformers over our indexes: a retriever, every method as a reranker, expansion, learned fusion.

    import kernelsearch.integrations.pyterrier as ks      # or, after `import pyterrier as pt`: pt.kernelsearch
    bm25 = ks.Retriever("indexes/cacm")
    pipeline = bm25 >> ks.KernelLSA("indexes/cacm")

Frames have PyTerrier's columns: qid, query (or query_toks, a weighted query), docno, docid, score, rank. Nothing here needs
Terrier's own jars.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.api.keywords import split
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.strings import StringTable
from kernelsearch.integrations.hits import open_index
from kernelsearch.lucene.first_stage import FirstStage
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import CannotAct
from kernelsearch.rerankers.pert.reranker import PerturbationReranker

__all__ = [
    "Auto",
    "ClickPrior",
    "Expansion",
    "Fusion",
    "KernelLSA",
    "MultiScaleLM",
    "PairwiseKernel",
    "Perturbation",
    "QuerySubstitution",
    "RelevanceClassifier",
    "Retriever",
    "RobustBM25",
]

#: What a transformer writes anew; other columns of its input are kept.
RANKED = ("docid", "docno", "score", "rank")


class Retriever(pt.Transformer):
    """Searches the index: BM25, or what the options of `kernelsearch.Index.search`'s first stage ask for (`rm3=True`, ...).

    Queries with `query_toks` are searched with those terms and weights, as they are.
    """

    def __init__(self, index: Any, num_results: int = 1000, *, threads: int = 1, **options: Any) -> None:
        self.index = open_index(index)
        self.num_results = num_results
        self.threads = threads
        self.options = options
        self.first = FirstStage.from_settings(split(None, {**options, "hits": num_results})[1])

    def __repr__(self) -> str:
        return f"Retriever({self.index.name!r}, num_results={self.num_results}{_shown(self.options)})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Queries in, results out."""
        with pt.validate.any(inp, context=self) as either:
            either.columns(includes=["qid", "query"], mode="text")
            either.columns(includes=["qid", "query_toks"], mode="weighted terms")
        inp = inp.drop(columns=[name for name in RANKED if name in inp.columns]).drop_duplicates("qid")
        queries = queries_of(self.index, inp)
        return to_frame(self.index, inp, self.first.search(self.index.lucene, queries, threads=self.threads))

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """`retriever % k` searches for k documents only."""
        return self if self.num_results <= k else Retriever(self.index, k, threads=self.threads, **self.options)


class KernelTransformer(pt.Transformer):
    """A method as a reranker of results. Options are the method's own (`dims=300` for --klsa.dims)."""

    method: ClassVar[str]

    def __init__(self, index: Any, **options: Any) -> None:
        self.index = open_index(index)
        self.options = options
        self._pipeline: Pipeline | None = None
        registry.method(self.method)  # an unknown name is refused here; fitted state is needed at the first transform
        split({self.method: options}, {})

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index.name!r}{_shown(self.options)})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Results in, results in their new order out."""
        pt.validate.result_frame(inp, extra_columns=["query", "score"], context=self)
        if inp.empty:
            return to_frame(self.index, inp, [])
        firsts, lists = lists_of(self.index, inp)
        return to_frame(self.index, firsts, self.pipeline.rerank(queries_of(self.index, firsts), lists), documents=inp)

    @property
    def pipeline(self) -> Pipeline:
        """The method at work, with what was fitted."""
        if self._pipeline is None:
            self._pipeline = Pipeline(self.index, FirstStage(), [(self.method, self.options)])
        return self._pipeline

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame | None = None,
        qrels_tr: pd.DataFrame | None = None,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
        *,
        clicks: str | None = None,
        **options: Any,
    ) -> None:
        """Fits what the method needs and keeps it beside the index; see `kernelsearch.Index.train` for the options."""
        self.index.train(self.method, topics=topics_of(topics_or_res_tr), qrels=qrels_of(qrels_tr), clicks=clicks, **options)
        self._pipeline = None


class KernelLSA(KernelTransformer):
    """Documents rise with the documents that they resemble in a latent space (`klsa`)."""

    method = "klsa"


class MultiScaleLM(KernelTransformer):
    """Matches text smoothed over meaning and position at several scales (`mslm`)."""

    method = "mslm"


class Perturbation(KernelTransformer):
    """Expands the query with an eye on the risk and searches again (`pert`); with `rescore=True` the documents stay."""

    method = "pert"


class Auto(KernelTransformer):
    """A fusion of kernels, feedback and methods that needs no training (`auto`)."""

    method = "auto"


class RobustBM25(KernelTransformer):
    """Learns from a click log, through similar queries and similar documents (`rbm25`)."""

    method = "rbm25"


class PairwiseKernel(KernelTransformer):
    """A baseline of RobustBM25: the same learner without BM25 in its kernel (`pairwise`)."""

    method = "pairwise"


class QuerySubstitution(KernelTransformer):
    """A baseline of RobustBM25: the list of the most similar query in the log (`substitution`)."""

    method = "substitution"


class ClickPrior(KernelTransformer):
    """A baseline of RobustBM25: BM25 plus the clicks of similar queries (`clickprior`)."""

    method = "clickprior"


class RelevanceClassifier(KernelTransformer):
    """A baseline: classifiers of the list's best and last documents, as Pyserini has them (`prcl`)."""

    method = "prcl"


class Expansion(pt.Transformer):
    """Expands queries by their results, as `pert` does: results in, queries with `query_toks` out, for the next retriever.

    `bm25 >> ks.Expansion(index) >> bm25`. The old query stands in `query_0`.
    """

    def __init__(self, index: Any, **options: Any) -> None:
        self.index = open_index(index)
        self.options = options
        self.reranker = PerturbationReranker(self.index, **options)

    def __repr__(self) -> str:
        return f"Expansion({self.index.name!r}{_shown(self.options)})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Results in, expanded queries out."""
        pt.validate.result_frame(inp, extra_columns=["query", "score"], context=self)
        columns = [name for name in pt.model.query_columns(inp) if name != "query_toks"]
        if inp.empty:
            return pt.model.push_queries(inp[columns], keep_original=True).assign(query_toks=pd.Series(dtype=object))
        firsts, lists = lists_of(self.index, inp)
        toks = [self._expand(*one) for one in zip(queries_of(self.index, firsts), lists, strict=True)]
        return pt.model.push_queries(firsts[columns], keep_original=True).assign(query_toks=toks).reset_index(drop=True)

    def _expand(self, query: Query, found: Candidates) -> dict[str, float]:
        with suppress(CannotAct):  # then the query stays as it is
            query = self.reranker.expanded(query, found)
        return dict(zip(query.terms, query.weights, strict=True))


class Fusion(pt.Estimator):
    """Learns how much to trust each method, from judgements (`fusion`).

    After a feature union, `bm25 >> (klsa ** mslm) >> fusion`, it learns from the `features` column. Without that column it
    learns from features of its own, computed from the index, and needs one. Options are those of `train --rerank fusion`.
    """

    def __init__(self, index: Any = None, **options: Any) -> None:
        self.index = None if index is None else open_index(index)
        self.options = options
        self._learner: Any = None
        self._reranker: KernelTransformer | None = None

    def __repr__(self) -> str:
        return f"Fusion({'' if self.index is None else repr(self.index.name)}{_shown(self.options)})"

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame,
        qrels_tr: pd.DataFrame,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
    ) -> None:
        """Learns from results with features, or from topics alone where an index was given."""
        from kernelsearch.rerankers.fusion.learners import make_learner
        from kernelsearch.rerankers.fusion.settings import FusionFitSettings

        if "features" not in topics_or_res_tr.columns:
            self._required().train("fusion", topics=topics_of(topics_or_res_tr), qrels=qrels_of(qrels_tr), **self.options)
            self._reranker = None
            return
        given = FusionFitSettings.of(self.options)
        frame = topics_or_res_tr.merge(qrels_tr[["qid", "docno", "label"]], on=["qid", "docno"], how="left")
        frame = frame.sort_values("qid", kind="stable")
        labels = frame["label"].fillna(0).to_numpy(dtype=np.float64)
        self._learner = make_learner(
            given.learner, normalise=given.normalise, folds=given.folds, random_state=given.random_state
        )
        self._learner.fit(np.stack(frame["features"].to_list()), labels, frame["qid"].to_numpy())

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Results in, results in the learned order out."""
        if "features" not in inp.columns:
            if self._reranker is None:
                self._reranker = _FusionReranker(self._required())
            return self._reranker.transform(inp)
        pt.validate.result_frame(inp, extra_columns=["features"], context=self)
        if inp.empty:
            return pt.model.add_ranks(inp.assign(score=pd.Series(dtype=float)))
        if self._learner is None:
            raise InputError("Fusion: fit it on training topics and their judgements before it can rank by features")
        frame = inp.sort_values("qid", kind="stable")
        scores = self._learner.predict(np.stack(frame["features"].to_list()), frame["qid"].to_numpy())
        return pt.model.add_ranks(frame.assign(score=scores)).sort_values(["qid", "rank"]).reset_index(drop=True)

    def _required(self) -> Index:
        if self.index is None:
            raise OptionError("Fusion: results have no features column, and no index was given to compute features from")
        return self.index


class _FusionReranker(KernelTransformer):
    method = "fusion"


def queries_of(index: Index, frame: pd.DataFrame) -> list[Query]:
    """The queries of a frame with one row a query; `query_toks` are taken as they are, texts are analysed."""
    qids = [str(qid) for qid in frame["qid"]]
    texts = [str(text) for text in frame["query"]] if "query" in frame.columns else [""] * len(qids)
    if "query_toks" not in frame.columns:
        return index.lucene.queries(texts, qids)
    return [
        Query(text, tuple(toks), tuple(float(weight) for weight in toks.values()), qid)
        for text, toks, qid in zip(texts, frame["query_toks"], qids, strict=True)
    ]


def lists_of(index: Index, results: pd.DataFrame) -> tuple[pd.DataFrame, list[Candidates]]:
    """(the first row of each query, its list) of a frame of results, best documents first."""
    codes, qids = pd.factorize(results["qid"])
    scores = results["score"].to_numpy(dtype=np.float64)
    names = results["docno"].to_numpy(dtype=object).tolist()  # pandas' own iteration takes ten times as long
    if not isinstance(results["docno"].dtype, pd.StringDtype):
        names = list(map(str, names))
    rows = index.forward.rows_of(names)
    if (rows < 0).any():
        bad = np.flatnonzero(rows < 0)
        raise InputError(
            f"results: {len(bad)} documents are not in {index.name}, such as {names[bad[0]]} of topic {qids[codes[bad[0]]]}"
        )
    order = np.lexsort((-scores, codes))
    ends = np.cumsum(np.bincount(codes))[:-1]
    lists = [Candidates(rows[part], scores[part]) for part in np.split(order, ends)]
    return results.iloc[np.unique(codes, return_index=True)[1]], lists


def to_frame(
    index: Index, queries: pd.DataFrame, lists: Sequence[Candidates], documents: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Results, one row a document; the queries' columns are repeated, the documents' own columns joined where they have any."""
    columns = pt.model.query_columns(queries)
    depth = np.array([found.depth for found in lists], dtype=np.int64)
    docs = np.concatenate([found.docs for found in lists]) if lists else np.empty(0, dtype=np.int32)
    scores = np.concatenate([found.scores for found in lists]) if lists else np.empty(0)
    repeated = np.repeat(np.arange(len(lists)), depth)
    made = {
        "docid": docs,
        "docno": docnos(index, docs),
        "score": scores.astype(np.float64),
        "rank": np.arange(len(docs)) - np.repeat(np.cumsum(depth) - depth, depth),
    }
    frame = pd.DataFrame({**{name: queries[name].array.take(repeated) for name in columns}, **made})
    extra = [name for name in (queries if documents is None else documents).columns if name not in {*columns, *RANKED}]
    if documents is None or not extra:
        return frame
    return frame.merge(documents[["qid", "docno", *extra]].drop_duplicates(["qid", "docno"]), on=["qid", "docno"], how="left")


def docnos(index: Index, docs: NDArray[np.int32]) -> Any:
    """A column of docnos, of the type that pandas has for text. Where that is Arrow's, no string is made on the way."""
    table = index.forward.docids
    if getattr(pd.Series([""]).dtype, "storage", None) != "pyarrow":
        return np.array(table.take(docs), dtype=object)
    return pd.array(_as_arrow(table).take(docs), dtype="str")


@lru_cache(maxsize=8)
def _as_arrow(table: StringTable) -> Any:
    """A table of strings as Arrow's, over the same bytes."""
    import pyarrow as pa

    data, ends = table.arrays
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(np.asarray(data)))


def topics_of(frame: pd.DataFrame | None) -> dict[str, str] | None:
    """Topics of a frame of queries or results, {qid: text}."""
    return None if frame is None else {str(qid): str(text) for qid, text in zip(frame["qid"], frame["query"], strict=True)}


def qrels_of(frame: pd.DataFrame | None) -> dict[str, dict[str, int]] | None:
    """Judgements of a frame with qid, docno and label, {qid: {docid: grade}}."""
    if frame is None:
        return None
    qrels: dict[str, dict[str, int]] = {}
    for qid, docno, label in zip(frame["qid"], frame["docno"], frame["label"], strict=True):
        qrels.setdefault(str(qid), {})[str(docno)] = int(label)
    return qrels


def _shown(options: dict[str, Any]) -> str:
    return "".join(f", {name}={value!r}" for name, value in options.items())


class JavaInit(pt.java.JavaInitializer):
    """Puts Anserini's jar into the Java that PyTerrier starts, so that Terrier and our indexes share one."""

    def priority(self) -> int:
        return -200  # before PyTerrier's own, which fails obscurely where Java runs already

    def pre_init(self, jnius_config: Any) -> None:
        from kernelsearch.lucene import jvm

        jvm.prepare_for_other(jnius_config)

    def message(self) -> str:
        return "Anserini's jar for kernelsearch"
