"""PyTerrier's data frames: queries, results, topics and judgements, read from frames and written to them."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyterrier as pt
from numpy.typing import NDArray

from kernelsearch.api.pipeline import count_fallbacks, fallback_messages
from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import json_object
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward.index import StringTable

if TYPE_CHECKING:
    from kernelsearch.api.index import Index

logger = logging.getLogger(__name__)

#: The columns that a transformer writes; it copies the other columns of its input.
RANKING_COLUMNS = ("docid", "docno", "score", "rank")
#: The column of a document's text, PyTerrier's name.
TEXT = "text"


def read_queries(index: Index, frame: pd.DataFrame) -> list[Query]:
    """The queries of a frame with one row per query.

    Weighted terms in a column `query_toks` are used unchanged; otherwise the text in `query` is analysed as the index is.
    Raises InputError for a query without a value: as text it would be the word "nan" or "none".
    """
    qids = [str(qid) for qid in frame["qid"]]
    texts = [str(text) for text in frame["query"]] if "query" in frame.columns else [""] * len(qids)
    if "query_toks" not in frame.columns:
        missing = np.flatnonzero(frame["query"].isna())
        if len(missing):
            raise InputError(f"queries: {len(missing)} have no text, such as that of topic {qids[missing[0]]}")
        return index.lucene.queries(texts, qids)
    return [
        Query(text, tuple(toks), tuple(float(weight) for weight in toks.values()), qid)
        for text, toks, qid in zip(texts, frame["query_toks"], qids, strict=True)
    ]


def read_results(index: Index, results: pd.DataFrame) -> tuple[pd.DataFrame, list[Candidates]]:
    """The first row and the ranked list, best document first, of each query in a frame of results.

    Raises InputError for a docno that the index does not have.
    """
    codes, qids = pd.factorize(results["qid"])
    scores = results["score"].to_numpy(dtype=np.float64)
    docnos = results["docno"].to_numpy(dtype=object).tolist()  # iterating over the pandas column takes ten times as long
    if not isinstance(results["docno"].dtype, pd.StringDtype):
        docnos = list(map(str, docnos))
    rows = index.forward.rows_of(docnos)
    if (rows < 0).any():
        unknown = np.flatnonzero(rows < 0)
        first = unknown[0]
        raise InputError(
            f"results: {len(unknown)} documents are not in {index.name}, such as {docnos[first]} of topic {qids[codes[first]]}"
        )
    ranks = results["rank"].to_numpy(dtype=np.float64) if "rank" in results.columns else np.zeros(len(results))
    order = np.lexsort((ranks, -scores, codes))  # ties as the frame ranks them, whatever the order of its rows
    ends = np.cumsum(np.bincount(codes))[:-1]
    lists = [Candidates(rows[places], scores[places]) for places in np.split(order, ends)]
    return results.iloc[np.unique(codes, return_index=True)[1]], lists


def all_columns(queries: pd.DataFrame) -> list[str]:
    """The columns of a frame of queries, qid and query first."""
    first = [name for name in ("qid", "query") if name in queries.columns]
    return [*first, *(name for name in queries.columns if name not in first)]


def make_results(
    index: Index,
    queries: pd.DataFrame,
    lists: Sequence[Candidates],
    documents: pd.DataFrame | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """A frame of results of `index`, one row per document, from `lists`, one ranked list per row of `queries`.

    `columns` of `queries`, by default those that PyTerrier calls query columns, are repeated for each document. `documents` are
    the results that were reranked, whose further columns are joined by qid and docno; a document that a method added gets
    those that have one value per query and are no fields of the documents. Queries whose list a method left unchanged are
    counted in a warning, with the reason.
    """
    for line in fallback_messages(count_fallbacks(lists)):
        logger.warning("%s", line)
    columns = pt.model.query_columns(queries) if columns is None else columns
    depths = np.array([ranked.depth for ranked in lists], dtype=np.int64)
    docs = np.concatenate([ranked.docs for ranked in lists]) if lists else np.empty(0, dtype=np.int32)
    scores = np.concatenate([ranked.scores for ranked in lists]) if lists else np.empty(0)
    repeated = np.repeat(np.arange(len(lists)), depths)
    ranking = {
        "docid": docs,
        "docno": make_docnos(index, docs),
        "score": scores.astype(np.float64),
        "rank": np.arange(len(docs)) - np.repeat(np.cumsum(depths) - depths, depths),
    }
    frame = pd.DataFrame({**{name: queries[name].array.take(repeated) for name in columns}, **ranking})
    if documents is None:
        return frame
    extra = [name for name in documents.columns if name not in {*columns, *RANKING_COLUMNS}]
    if not extra:
        return frame
    known = documents[["qid", "docno", *extra]].drop_duplicates(["qid", "docno"])
    known = known.assign(docno=known["docno"].astype(frame["docno"].dtype))  # docnos may be numbers
    frame = frame.merge(known, on=["qid", "docno"], how="left", indicator="_merge")
    added = (frame.pop("_merge") == "left_only").to_numpy()
    if not added.any() or not known["qid"].duplicated().any():  # one document per query does not tell what describes queries
        return frame
    stored = set(stored_fields(index))
    return _describe_added(frame, known, [name for name in extra if name not in stored], added)


def stored_fields(index: Index) -> tuple[str, ...]:
    """The columns that `Text` can add: those of the first document of `index`, with its text as TEXT."""
    contents, raw = (index.lucene.stored([0], field)[0] for field in ("contents", "raw"))
    names = [TEXT] if contents is not None or raw is not None else []
    return (*names, *(name for name in json_object(raw) if name not in ("id", "contents", TEXT)))


def _describe_added(frame: pd.DataFrame, known: pd.DataFrame, extra: Sequence[str], added: NDArray[np.bool_]) -> pd.DataFrame:
    """Fills, for documents that a method added, the columns that have one value per query: they describe the query."""
    for name in extra:
        try:
            constant = bool((known.groupby("qid")[name].nunique(dropna=False) == 1).all())
        except TypeError:
            continue  # lists or arrays, such as features, describe documents
        if constant:
            values = known.drop_duplicates("qid").set_index("qid")[name]
            frame.loc[added, name] = frame.loc[added, "qid"].map(values)
    return frame


def make_docnos(index: Index, docs: NDArray[np.int32]) -> Any:
    """The docnos of the rows `docs` of `index`, in the type that pandas uses for text; for Arrow no Python string is made."""
    docids = index.forward.docids
    if getattr(pd.Series([""]).dtype, "storage", None) != "pyarrow":
        return np.array(docids.take(docs), dtype=object)
    return pd.array(_as_arrow(docids).take(docs), dtype="str")


@lru_cache(maxsize=8)
def _as_arrow(strings: StringTable) -> Any:
    """A string table as an Arrow array over the same bytes."""
    import pyarrow as pa

    data, ends = strings.arrays
    offsets = np.concatenate([[0], ends]).astype(np.int64)
    return pa.LargeStringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(np.asarray(data)))
