"""Topics and judgements as Python programs have them: dicts, files, or the data frames of PyTerrier and ir_datasets."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import InputError
from kernelsearch.trec import read_qrels, read_topics

#: The names of the columns in frames: PyTerrier's, then those of ir_datasets and our own.
QIDS, TEXTS = ("qid", "query_id"), ("query", "text", "title")
DOCIDS, GRADES = ("docno", "doc_id", "docid"), ("label", "relevance", "grade")


def as_topics(topics: Mapping[str, str] | str | Path | Any) -> dict[str, str]:
    """{qid: text} of `topics`: such a mapping, a file, or a data frame with columns such as qid and query."""
    if isinstance(topics, str | Path):
        return read_topics(topics)
    if is_frame(topics):
        qids, texts = (_column(topics, names, "topics") for names in (QIDS, TEXTS))
        return dict(zip(qids, texts, strict=True))
    return dict(topics)


def as_qrels(qrels: Mapping[str, Mapping[str, int]] | str | Path | Any) -> dict[str, dict[str, int]]:
    """{qid: {docid: grade}} of `qrels`: such a mapping, a file, or a data frame with columns such as qid, docno and label."""
    if isinstance(qrels, str | Path):
        return read_qrels(qrels)
    if not is_frame(qrels):
        return {qid: dict(grades) for qid, grades in qrels.items()}
    judged: dict[str, dict[str, int]] = {}
    for qid, docid, grade in zip(*(_column(qrels, names, "qrels") for names in (QIDS, DOCIDS, GRADES)), strict=True):
        judged.setdefault(qid, {})[docid] = int(grade)
    return judged


def is_frame(value: object) -> bool:
    """Whether a value is a data frame, of pandas or like it."""
    return hasattr(value, "columns") and hasattr(value, "to_dict")


def _column(frame: Any, names: tuple[str, ...], what: str) -> list[str]:
    """The values of the first column that the frame has of `names`, as texts."""
    for name in names:
        if name in frame.columns:
            return [str(value) for value in frame[name]]
    raise InputError(
        f"{what}: a data frame without a column {' or '.join(names)} (it has {', '.join(map(str, frame.columns))})"
    )
