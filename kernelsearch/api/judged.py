"""Topics and judgements as Python programs have them: dicts, files, or the data frames of PyTerrier and ir_datasets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from kernelsearch.core.errors import InputError, quote, short
from kernelsearch.core.reading import whole_number
from kernelsearch.trec import read_qrels, read_topics
from kernelsearch.trec.delimited import refuse_repeated
from kernelsearch.trec.qrels import MAX_GRADE, SubtopicGrades, add_grade

if TYPE_CHECKING:
    from pandas import DataFrame

#: {qid: text}, a file of topics, or a data frame (qid, query).
Topics: TypeAlias = "Mapping[str, str] | str | Path | DataFrame"
#: {qid: {docid: grade}}, a file of judgements, or a data frame (qid, docno, label).
Judgements: TypeAlias = "Mapping[str, Mapping[str, int]] | str | Path | DataFrame"

#: The names of the columns in frames: PyTerrier's, then those of ir_datasets and our own.
QIDS, TEXTS = ("qid", "query_id"), ("query", "text", "title")
SUBTOPICS = ("iteration", "subtopic_id")
DOCIDS, GRADES = ("docno", "doc_id", "docid"), ("label", "relevance", "grade")


def as_topics(topics: Topics) -> dict[str, str]:
    """{qid: text} of `topics`: such a mapping, a file, or a data frame with columns such as qid and query.

    Ids that are numbers become text. A frame may repeat a topic, as one with a row per document does. Raises InputError for a
    text that is none and for two texts of one topic.
    """
    if isinstance(topics, str | Path):
        return read_topics(topics)
    if not is_frame(topics):
        if not isinstance(topics, Mapping):
            raise InputError(f"topics: {{qid: text}} was expected, not {quote(topics)}")
        return {str(qid): _text(text, str(qid)) for qid, text in topics.items()}
    texts: dict[str, str] = {}
    for qid, text in zip(_texts(topics, QIDS, "topics"), _column(topics, TEXTS, "topics"), strict=True):
        text = _text(text, qid)
        if texts.setdefault(qid, text) != text:
            raise InputError(f"topics: topic {short(qid)} has two texts, {quote(texts[qid])} and {quote(text)}")
    return texts


def as_qrels(qrels: Judgements, *, by_subtopic: bool = False) -> dict[str, dict[str, int]]:
    """{qid: {docid: grade}} of `qrels`: such a mapping, a file, or a data frame with columns such as qid, docno and label.

    With `by_subtopic` the subtopics of a file's second column, or of a frame's column `iteration`, are read, see `read_qrels`.
    Raises InputError for a grade that is no whole number and for two grades of one document, as a file with them is refused.
    """
    if isinstance(qrels, str | Path):
        return read_qrels(qrels, by_subtopic=by_subtopic)
    subtopics: list[str] = []
    if is_frame(qrels):
        qids, docids = (_texts(qrels, names, "qrels") for names in (QIDS, DOCIDS))
        rows = list(zip(qids, docids, _column(qrels, GRADES, "qrels"), strict=True))
        columns: Any = qrels.columns  # type: ignore[union-attr]
        if by_subtopic and any(name in columns for name in SUBTOPICS):
            subtopics = _texts(qrels, SUBTOPICS, "qrels")
    elif isinstance(qrels, Mapping) and any(isinstance(grades, SubtopicGrades) for grades in qrels.values()):
        return dict(qrels)  # read from a file
    elif isinstance(qrels, Mapping) and all(isinstance(grades, Mapping) for grades in qrels.values()):
        rows = [(str(qid), str(docid), grade) for qid, grades in qrels.items() for docid, grade in grades.items()]
    else:
        raise InputError("qrels: {qid: {docid: grade}} was expected")
    judged: dict[str, dict[str, int]] = {} if is_frame(qrels) else {str(qid): {} for qid in qrels}
    for number, (qid, docid, value) in enumerate(rows):
        grade = _grade(value, f"qrels: topic {short(qid)}, document {short(docid)}")
        try:
            add_grade(judged, qid, docid, grade, subtopics[number] if subtopics else None)
        except InputError as problem:
            raise InputError(f"qrels: {problem}") from None
    return judged


def _text(value: object, qid: str) -> str:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, int | float) and math.isfinite(value):
        return str(value)
    if not isinstance(value, str):
        raise InputError(f"topics: the text of topic {short(qid)} is {quote(value)}, a text was expected")
    return value


def _grade(value: object, place: str) -> int:
    """A grade of any numeric type, such as the floats of a frame that was merged with another, or as text."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = whole_number(value)
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, int | float) and math.isfinite(value) and value == int(value) and abs(value) <= MAX_GRADE:
        return int(value)
    raise InputError(f"grade {quote(value)} is not a whole number from -{MAX_GRADE} to {MAX_GRADE}", path=place)


def is_frame(value: object) -> bool:
    """Whether a value is a data frame, of pandas or like it."""
    return hasattr(value, "columns") and hasattr(value, "to_dict")


def _texts(frame: Any, names: tuple[str, ...], what: str) -> list[str]:
    """The values of a column as texts; see `_column`."""
    return [str(value) for value in _column(frame, names, what)]


def _column(frame: Any, names: tuple[str, ...], what: str) -> list[Any]:
    """The values of the first column that the frame has of `names`; InputError where it has none, or two of one name."""
    refuse_repeated(map(str, frame.columns), what)
    for name in names:
        if name in frame.columns:
            return list(frame[name])
    raise InputError(
        f"{what}: a data frame without a column {' or '.join(names)} (it has {', '.join(map(str, frame.columns))})"
    )
