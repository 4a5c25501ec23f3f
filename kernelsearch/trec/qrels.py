"""Reading relevance judgements: TREC qrels and BEIR's three-column TSV."""

from __future__ import annotations

from pathlib import Path

from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines


def read_qrels(path: str | Path) -> dict[str, dict[str, int]]:
    """Returns judgements as {qid: {docid: grade}}. Raises InputError, with the line, for malformed or contradictory ones."""
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
            raise InputError(f"{path}: line {number}: {len(parts)} columns, a judgement has 4 (or 3 in BEIR's form)")
        try:
            value = int(grade)
        except ValueError:
            raise InputError(f"{path}: line {number}: grade {grade!r} is not a whole number") from None
        known = qrels.setdefault(qid, {})
        if docid in known and known[docid] != value:
            raise InputError(f"{path}: line {number}: topic {qid}, document {docid} is judged twice, with different grades")
        known[docid] = value
    if not qrels:
        raise InputError(f"{path}: no judgements in it")
    return qrels
