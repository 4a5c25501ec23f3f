"""Reading relevance judgements: TREC qrels and BEIR's three-column TSV."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.core.errors import InputError, quote, short
from kernelsearch.core.reading import lines, whole_number
from kernelsearch.trec.ids import check_id

#: The largest grade. trec_eval's memory grows with the grade, and near 2^31 it returns zeros.
MAX_GRADE = 1_000_000


class SubtopicGrades(dict[str, int]):
    """The grades of a topic, {docid: grade}, and those of its subtopics.

    Attributes: `subtopics`, {(docid, subtopic): grade}; `disputed`, a document whose grades differ between subtopics, if any.
    """

    def __init__(self) -> None:
        super().__init__()
        self.subtopics: dict[tuple[str, str], int] = {}
        self.disputed: str | None = None


def add_grade(qrels: dict[str, dict[str, int]], qid: str, docid: str, grade: int, subtopic: str | None = None) -> None:
    """Adds the `grade` of document `docid` for topic `qid` to `qrels`, with a `subtopic` as `SubtopicGrades`.

    Raises InputError where it contradicts an earlier one.
    """
    grades = qrels.setdefault(qid, {} if subtopic is None else SubtopicGrades())
    agrees = grades.setdefault(docid, grade) == grade
    if subtopic is not None and isinstance(grades, SubtopicGrades):
        if not agrees:
            grades.disputed = docid
        agrees = grades.subtopics.setdefault((docid, subtopic), grade) == grade
    if not agrees:
        raise InputError(f"topic {short(qid)}, document {short(docid)} is judged twice, with different grades")


def read_qrels(path: str | Path, *, by_subtopic: bool = False) -> dict[str, dict[str, int]]:
    """Returns the judgements of the file `path`, {qid: {docid: grade}}. InputError for malformed or contradictory lines.

    With `by_subtopic` the grades of each topic are `SubtopicGrades`, with the subtopics of TREC's second column.
    """
    qrels: dict[str, dict[str, int]] = {}
    for number, line in lines(path):
        parts = line.split()
        if not parts or (number == 1 and parts[0] == "query-id"):
            continue
        if len(parts) == 4:
            qid, subtopic, docid, grade = parts
        elif len(parts) == 3:
            (qid, docid, grade), subtopic = parts, ""
        else:
            raise InputError(f"{len(parts)} columns, a judgement has 4 (or 3 in BEIR's form)", path=path, line=number)
        try:
            value = whole_number(grade, low=-MAX_GRADE, high=MAX_GRADE)
        except ValueError:
            raise InputError(
                f"grade {quote(grade)} is not a whole number from -{MAX_GRADE} to {MAX_GRADE}", path=path, line=number
            ) from None
        if not line.isprintable():
            place = f"{path}: line {number}"
            check_id(qid, "topic", place)
            check_id(docid, "document", place)
        try:
            add_grade(qrels, qid, docid, value, subtopic if by_subtopic else None)
        except InputError as problem:
            problem.path, problem.line = path, number
            raise
    if not qrels:
        raise InputError("no judgements in it", path=path)
    return qrels
