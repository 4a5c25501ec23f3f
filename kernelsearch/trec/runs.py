"""Reading and writing run files.

In a run that kernelsearch writes, ranks agree with scores, and no two scores of a topic are printed alike, so that an evaluator
which sorts by score (as trec_eval does, breaking ties by docid, descending) sees the intended order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np

from kernelsearch.core.errors import InputError, OptionError, quote, short
from kernelsearch.core.files import write_file
from kernelsearch.core.reading import lines, whole_number
from kernelsearch.trec.ids import check_id

FORMATS = ("trec", "msmarco")
#: Decimals of printed scores.
DECIMALS = 6

#: (qid, docids best first, their scores)
RankedList = tuple[str, Sequence[str], Sequence[float]]


def read_run(path: str | Path) -> dict[str, list[tuple[str, float]]]:
    """Returns a run as {qid: [(docid, score), ...]}, best first.

    Reads TREC's six columns and MS MARCO's three (qid, docid, rank), whose scores are 1/rank. Raises InputError, with the line,
    for malformed lines and for a document that a topic lists twice.
    """
    run = parse_run(path, lines(path))
    if not run:
        raise InputError(f"{path}: no results in it")
    return run


def parse_run(path: str | Path, numbered: Iterable[tuple[int, str]]) -> dict[str, list[tuple[str, float]]]:
    """As `read_run`, of (line number, line); empty where there are no lines. `path` names the file in messages."""
    run: dict[str, dict[str, tuple[float, int]]] = {}
    for number, line in numbered:
        parts = line.split()
        if not parts:
            continue
        try:
            if len(parts) == 6:
                qid, docid, rank, score = parts[0], parts[2], whole_number(parts[3]), float(parts[4])
            elif len(parts) == 3:
                qid, docid, rank = parts[0], parts[1], whole_number(parts[2])
                score = 1.0 / rank if rank > 0 else 1.0
            else:
                raise InputError(f"{path}: line {number}: {len(parts)} columns, a run has 6 (TREC) or 3 (MS MARCO)")
        except ValueError:
            shown = " ".join(parts[3:5] if len(parts) == 6 else parts[2:])
            raise InputError(
                f"{path}: line {number}: rank or score is not a number, or a rank has more than 64 bits: {quote(shown)}"
            ) from None
        if score != score or score in (float("inf"), float("-inf")):
            raise InputError(f"{path}: line {number}: score {short(parts[4])} is not finite")
        if not line.isprintable():
            place = f"{path}: line {number}"
            check_id(qid, "topic", place)
            check_id(docid, "document", place)
        ranked = run.setdefault(qid, {})
        if docid in ranked:
            raise InputError(f"{path}: line {number}: topic {short(qid)} lists document {short(docid)} twice")
        ranked[docid] = (score, rank)
    return {
        qid: [
            (docid, score) for docid, (score, _) in sorted(ranked.items(), key=lambda item: (-item[1][0], item[1][1], item[0]))
        ]
        for qid, ranked in run.items()
    }


def printed_scores(scores: Iterable[float], decimals: int = DECIMALS) -> Iterator[str]:
    """Yields scores as text, strictly descending: one that isn't below its predecessor is replaced by the next smaller value.

    Strictly in single precision, in which trec_eval reads scores: there 25.123457 and 25.123456 are equal.

    >>> list(printed_scores([2.0, 1.5, 1.5]))
    ['2.000000', '1.500000', '1.499999']
    """
    unit = 10**decimals
    last: np.float32 | None = None
    for score in scores:
        steps = round(float(score) * unit)
        if last is not None and np.float32(steps / unit) >= last:
            steps = math.floor(float(np.nextafter(last, np.float32(-np.inf))) * unit)
        last = np.float32(steps / unit)
        sign = "-" if steps < 0 else ""
        yield f"{sign}{abs(steps) // unit}.{abs(steps) % unit:0{decimals}d}"


def run_lines(ranked: RankedList, kind: str = "trec", tag: str = "kernelsearch") -> Iterator[str]:
    """Yields the lines of one topic; `kind` is one of FORMATS, `tag` the run's name in TREC's last column."""
    qid, docids, scores = ranked
    if kind == "msmarco":
        for rank, docid in enumerate(docids, 1):
            yield f"{qid}\t{docid}\t{rank}\n"
    else:
        for rank, (docid, score) in enumerate(zip(docids, printed_scores(scores), strict=True), 1):
            yield f"{qid} Q0 {docid} {rank} {score} {tag}\n"


def write_run(path: str | Path, ranked: Iterable[RankedList], kind: str = "trec", tag: str = "kernelsearch") -> int:
    """Writes a run file atomically and returns the number of topics; for the parameters see `run_lines`."""
    if kind not in FORMATS:
        raise OptionError(f"--output-format: {kind!r} is not one of {', '.join(FORMATS)}")
    count = 0
    with write_file(path) as stream:
        for topic in ranked:
            stream.writelines(run_lines(topic, kind, tag))
            count += 1
    return count
