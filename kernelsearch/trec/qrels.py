"""Reading relevance judgements: TREC qrels and BEIR's three-column TSV."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.core.errors import InputError, quote, short
from kernelsearch.core.reading import lines, whole_number
from kernelsearch.trec.ids import check_id

#: The largest grade. trec_eval's memory grows with the grade, and near 2^31 it returns zeros.
MAX_GRADE = 1_000_000


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Returns the judgements of the file `path`, {qid: {docid: grade}}. InputError for malformed or contradictory lines."""
    qrels: dict[str, dict[str, int]] = {}
    for number, line in lines(path):
        parts = line.split()
        if not parts or (number == 1 and parts[0] == "query-id"):
            continue
        if len(parts) == 4:
            qid, _, docid, grade = parts
        elif len(parts) == 3:
            qid, docid, grade = parts
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
        known = qrels.setdefault(qid, {})
        if docid in known and known[docid] != value:
            raise InputError(
                f"topic {short(qid)}, document {short(docid)} is judged twice, with different grades", path=path, line=number
            )
        known[docid] = value
    if not qrels:
        raise InputError("no judgements in it", path=path)
    return qrels
