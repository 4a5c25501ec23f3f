"""PyTerrier transformers over an index: retriever, methods as rerankers, expansion, learned fusion, stored texts, an indexer.

    import kernelsearch.integrations.pyterrier as ks      # or, after `import pyterrier as pt`: pt.kernelsearch
    bm25 = ks.Retriever("indexes/cacm")
    pipeline = bm25 >> ks.KernelLSA("indexes/cacm")

Frames have PyTerrier's columns: qid, query (or query_toks, a weighted query), docno, docid, score, rank. None of the
transformers needs Terrier's jars.

Every method of the registry is a subclass of `KernelTransformer` in this module, made on first use: the class of `klsa` is
`KernelLSA`, after its reranker's class without the suffix "Reranker". A method of an installed plugin has its class here too;
`transformer_class("klsa")` finds one by the method's name.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from functools import cache
from inspect import Parameter, Signature
from keyword import iskeyword
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt

from kernelsearch.api.judged import as_qrels
from kernelsearch.api.keywords import read_keywords
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.options import Option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.integrations import frames
from kernelsearch.integrations.hits import IndexSource, open_index
from kernelsearch.integrations.pyterrier_base import IndexTransformer, format_options
from kernelsearch.integrations.pyterrier_expansion import Expansion
from kernelsearch.integrations.pyterrier_fused import FusedFeatures, FusedRetriever
from kernelsearch.integrations.pyterrier_text import Indexer, Text
from kernelsearch.lucene.models import FirstStageSettings
from kernelsearch.rerankers import registry

if TYPE_CHECKING:
    from kernelsearch.api.index import Index


class Retriever(IndexTransformer):
    """Searches an index.

    Queries with a column `query_toks` are searched with those terms and weights, unchanged. Further columns of a frame of
    queries are repeated for every document.

    Parameters
    ----------
    index : a folder, an opened index or a Lucene searcher
    num_results : documents to retrieve per query
    threads : threads to search with
    options : the options of the first stage in `kernelsearch.Index.search` (`k1=1.2`, `rm3=True`)
    """

    attributes_that_vary: ClassVar[tuple[str, ...]] = ("num_results", "threads")

    def __init__(self, index: IndexSource, num_results: int = 1000, *, threads: int = 1, **options: Any) -> None:
        self.index = open_index(index)
        self.num_results = num_results
        self.threads = threads
        self.options = options
        self.check()

    def __repr__(self) -> str:
        return f"Retriever({self.index.name!r}, num_results={self.num_results}{format_options(self.options)})"

    def declared_options(self) -> Sequence[Option]:
        """The options of the first stage; the number of results is a parameter of its own."""
        return [option for option in FirstStageSettings.options if option.key != "hits"]

    def check(self) -> None:
        """Makes the first stage of the parameters."""
        self.spec = read_keywords(None, {**self.options, "hits": self.num_results})

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Takes a frame `inp` of queries and returns a frame of results."""
        queries, _, lists = self.retrieve(inp)
        return frames.make_results(self.index, queries, lists, columns=frames.all_columns(queries))

    def retrieve(self, inp: pd.DataFrame) -> tuple[pd.DataFrame, list[Query], list[Candidates]]:
        """The queries of the frame `inp`, one row per query, analysed, and the list of each."""
        with pt.validate.any(inp, context=self) as either:
            either.columns(includes=["qid", "query"], mode="text")
            either.columns(includes=["qid", "query_toks"], mode="weighted terms")
        if "docno" in inp.columns:
            # Results: only the columns of queries describe a query, the others a document.
            inp = inp[[name for name in inp.columns if name in set(pt.model.query_columns(inp))]]
        inp = inp.drop(columns=[name for name in frames.RANKING_COLUMNS if name in inp.columns])
        if "query" in inp.columns:
            texts = inp.drop_duplicates(["qid", "query"])
            if (twice := texts["qid"].duplicated()).any():
                raise InputError(f"queries: topic {texts['qid'][twice].iloc[0]} has several texts; one query has one qid")
        inp = inp.drop_duplicates("qid")
        queries = frames.read_queries(self.index, inp)
        return inp, queries, self.index.open_pipeline(self.spec).retrieve(queries, threads=self.threads)

    def fuse_rank_cutoff(self, k: int) -> pt.Transformer:
        """The retriever of `retriever % k`, which searches for k documents only."""
        return self if self.num_results <= k else Retriever(self.index, k, threads=self.threads, **self.options)


class KernelTransformer(IndexTransformer):
    """A method as a reranker of results: `bm25 >> ks.KernelLSA(index)`. Its subclasses are made from the registry.

    Parameters
    ----------
    index : a folder, an opened index or a Lucene searcher
    options : the options of the method (`dims=300` for --klsa.dims)

    The class attribute `method` is the method's name.
    """

    method: ClassVar[str]

    def __init__(self, index: IndexSource, **options: Any) -> None:
        self.index = open_index(index)
        self.options = options
        self.check()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.index.name!r}{format_options(self.options)})"

    def declared_options(self) -> Sequence[Option]:
        """The options of the method."""
        return registry.method(self.method).options

    def check(self) -> None:
        """Refuses unknown options and values; fitted state is needed at the first transform only."""
        self._spec = read_keywords({self.method: self.options}, {})

    def fuse_left(self, left: pt.Transformer) -> pt.Transformer | None:
        """A retriever, or a fused pipeline, `left` over the same index and this method in one step."""
        if type(left) is Retriever and self.same_index(left):
            return FusedRetriever(left, (self,))
        if isinstance(left, FusedRetriever) and self.same_index(left.retriever):
            return FusedRetriever(left.retriever, (*left.rerankers, self))
        return None

    def fuse_feature_union(self, other: pt.Transformer, is_left: bool) -> pt.Transformer | None:
        """The features of this method and of `other`, one method or several; `is_left`: the other's come first."""
        return FusedFeatures((self,)).fuse_feature_union(
            FusedFeatures((other,)) if isinstance(other, KernelTransformer) else other, is_left
        )

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Takes a frame `inp` of results and returns them reranked; their other columns are kept."""
        pt.validate.result_frame(inp, extra_columns=["query", "score"], context=self)
        if inp.empty:
            return frames.make_results(self.index, inp, [], documents=inp)
        queries, lists = frames.read_results(self.index, inp)
        reranked = self.pipeline.rerank(frames.read_queries(self.index, queries), lists)
        return frames.make_results(self.index, queries, reranked, documents=inp)

    @property
    def pipeline(self) -> Pipeline:
        """The reranker with its fitted state, which the index loads on first use and keeps ready."""
        return self.index.open_pipeline(self._spec)

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
        """Fits the method and saves its state beside the index; `clicks` and options are those of `kernelsearch.Index.train`.

        `topics_or_res_tr` and `qrels_tr` are the training topics and their judgements. Validation topics and judgements
        (`topics_or_res_va`, `qrels_va`) are accepted because PyTerrier passes them, and not used.
        """
        self.index.train(self.method, topics=topics_or_res_tr, qrels=qrels_tr, clicks=clicks, **options)


class Fusion(pt.Estimator):
    """Learns from judgements how to combine methods (`fusion`).

    After a feature union, `bm25 >> (klsa ** mslm) >> fusion`, it learns from the `features` column. Without that column it
    computes its own features from the index, which must then be given.

    Parameters
    ----------
    index : a folder, an opened index or a Lucene searcher; None where results have features
    options : the options of `train --rerank fusion`
    """

    def __init__(self, index: IndexSource | None = None, **options: Any) -> None:
        self.index = None if index is None else open_index(index)
        self.options = options
        self._learner: Any = None

    def __repr__(self) -> str:
        return f"Fusion({'' if self.index is None else repr(self.index.name)}{format_options(self.options)})"

    def __eq__(self, other: object) -> bool:
        """Whether index, options and what was learned are the same."""
        if not isinstance(other, Fusion):
            return NotImplemented
        indexes = [None if fusion.index is None else _FusionReranker(fusion.index) for fusion in (self, other)]
        return (
            (self.options, indexes[0]) == (other.options, indexes[1])
            and pickle.dumps(self._learner) == pickle.dumps(other._learner)
        )  # fmt: skip

    def __hash__(self) -> int:
        return hash(("Fusion", None if self.index is None else self.index.fingerprint))

    def fit(
        self,
        topics_or_res_tr: pd.DataFrame,
        qrels_tr: pd.DataFrame,
        topics_or_res_va: pd.DataFrame | None = None,
        qrels_va: pd.DataFrame | None = None,
    ) -> None:
        """Learns from results with features, or from topics alone where an index was given.

        `qrels_tr` are the judgements of `topics_or_res_tr`. Validation topics and judgements (`topics_or_res_va`, `qrels_va`)
        are accepted because PyTerrier passes them, and not used.
        """
        from kernelsearch.rerankers.fusion.learners import make_learner
        from kernelsearch.rerankers.fusion.settings import FusionFitSettings

        if "features" not in topics_or_res_tr.columns:
            self._required_index().train("fusion", topics=topics_or_res_tr, qrels=qrels_tr, **self.options)
            return
        settings = FusionFitSettings.of(self.options)
        frame, judged = _in_rank_order(topics_or_res_tr), as_qrels(qrels_tr)
        pairs = zip(frame["qid"], frame["docno"], strict=True)
        labels = np.array([judged.get(str(qid), {}).get(str(docno), 0) for qid, docno in pairs], dtype=np.float64)
        self._learner = make_learner(settings.learner, folds=settings.folds, random_state=settings.random_state)
        self._learner.fit(np.stack(frame["features"].to_list()), labels, frame["qid"].to_numpy())

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Takes a frame `inp` of results and returns them in the learned order."""
        if "features" not in inp.columns:
            return _FusionReranker(self._required_index()).transform(inp)
        pt.validate.result_frame(inp, extra_columns=["features"], context=self)
        if inp.empty:
            return pt.model.add_ranks(inp.assign(score=pd.Series(dtype=float)))
        if self._learner is None:
            raise InputError("Fusion: fit it on training topics and their judgements before it can rank by features")
        frame = _in_rank_order(inp)
        scores = self._learner.predict(np.stack(frame["features"].to_list()), frame["qid"].to_numpy())
        return pt.model.add_ranks(frame.assign(score=scores)).sort_values(["qid", "rank"]).reset_index(drop=True)

    def _required_index(self) -> Index:
        if self.index is None:
            raise OptionError("Fusion: results have no features column, and no index was given to compute features from")
        return self.index


def _in_rank_order(results: pd.DataFrame) -> pd.DataFrame:
    """The rows by query, those of each in the order of their ranks, which scores that tie keep."""
    return results.sort_values([name for name in ("qid", "rank") if name in results.columns], kind="stable")


class _FusionReranker(KernelTransformer):
    """`fusion` with the features that it computes itself; the public transformer of the method is `Fusion`."""

    method = "fusion"


class JavaInit(pt.java.JavaInitializer):
    """Adds Anserini's jar to the classpath of the JVM that PyTerrier starts, so that Terrier and our indexes share one JVM."""

    def priority(self) -> int:
        """Before PyTerrier's own initialisers, whose error message is unclear where a JVM is running already."""
        return -200

    def pre_init(self, jnius_config: Any) -> None:
        """Adds the jar to `jnius_config`, or raises InputError where we have started the JVM already."""
        from kernelsearch.lucene import jvm

        jvm.prepare_for_other(jnius_config)

    def message(self) -> str:
        """What PyTerrier prints when it starts the JVM."""
        return "Anserini's jar for kernelsearch"


@cache
def transformer_class(method: str) -> type[KernelTransformer]:
    """The transformer class of a method by the method's name; raises OptionError for an unknown name.

    A method has one class per process, and the class is an attribute of this module, so that pickle finds it by its name.
    """
    declared = registry.method(method)
    if method == _FusionReranker.method:
        return _FusionReranker
    class_name = next(name for name, owner in _method_names().items() if owner == method)

    class MethodTransformer(KernelTransformer):
        pass

    MethodTransformer.method = method
    MethodTransformer.__name__ = MethodTransformer.__qualname__ = class_name
    MethodTransformer.__doc__ = (
        f"Reranks results with `{method}`, {declared.summary}.\n\n"
        f"Parameters\n----------\nindex : a folder, an opened index or a Lucene searcher\n"
        + "".join(f"{option.key} : {option.help}\n" for option in declared.options)
    )
    MethodTransformer.__signature__ = _signature(declared.options)
    return MethodTransformer


def _signature(options: Sequence[Option]) -> Signature:
    """The parameters of a method's transformer. An option whose name is a Python keyword, such as lambda, is in `**options`."""
    parameters = [Parameter("index", Parameter.POSITIONAL_OR_KEYWORD)]
    for option in options:
        if not iskeyword(option.key):
            parameters.append(Parameter(option.key, Parameter.KEYWORD_ONLY, default=option.default))
    return Signature([*parameters, Parameter("options", Parameter.VAR_KEYWORD)])


@cache
def _method_names() -> dict[str, str]:
    """{class name: method} of all methods without a class of their own above.

    Where two rerankers have the same class name, the later one's transformer is named as the method, with underscores.
    """
    known: dict[str, str] = {}
    for name, method in registry.methods().items():
        if name != _FusionReranker.method:
            class_name = method.reranker.rpartition(":")[2].removesuffix("Reranker")
            taken = class_name in known or class_name in globals()
            known[name.replace("-", "_") if taken else class_name] = name
    return known


def __getattr__(name: str) -> type[KernelTransformer]:
    if name in _method_names():
        return transformer_class(_method_names()[name])
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_method_names()})


__all__ = [
    "Expansion",
    "Fusion",
    "FusedFeatures",
    "FusedRetriever",
    "Indexer",
    "JavaInit",
    "KernelTransformer",
    "Retriever",
    "Text",
    "transformer_class",
    *_method_names(),
]
