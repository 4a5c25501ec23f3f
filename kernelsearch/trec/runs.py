"""Reading and writing run files.

In a run that kernelsearch writes, ranks agree with scores, and no two scores of a topic are printed alike, so that an evaluator
which sorts by score (as trec_eval does, breaking ties by docid, descending) sees the intended order.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import compress, pairwise
from operator import gt, ne
from pathlib import Path

import numpy as np

from kernelsearch.core.errors import Flag, InputError, OptionError, quote, short
from kernelsearch.core.files import write_file
from kernelsearch.core.reading import TextBlock, text_blocks, to_number, whole_number
from kernelsearch.trec.ids import MAX_ID, check_id
from kernelsearch.trec.run_lines import Columns, plain_columns

FORMATS = ("trec", "msmarco")
#: Decimals of printed scores.
DECIMALS = 6
#: Below this many units of the last decimal, the nearest double of a score has the same decimals.
EXACT = 10**15
#: The largest printed score. Single precision ends at 3.4e38; the rest is for scores that are printed below their predecessors.
LARGEST = 3e38
#: Digits of a rank that fit into 64 bits, whatever they are.
MAX_DIGITS = 18

#: (qid, docids best first, their scores)
RankedList = tuple[str, Sequence[str], Sequence[float]]


#: Control characters of ASCII other than tab, line feed and carriage return; those of Latin-1 and a byte-order mark as well.
_ASCII_CONTROLS = bytes([*range(9), 11, 12, *range(14, 32), 127])
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ufeff]")


def read_run(path: str | Path) -> dict[str, list[tuple[str, float]]]:
    """Returns the run in the file `path` as {qid: [(docid, score), ...]}, best first.

    Reads TREC's six columns and MS MARCO's three (qid, docid, rank), whose scores are 1/rank. Raises InputError, with the line,
    for malformed lines and for a document that a topic lists twice.
    """
    reader = _Reader(path)
    for block in text_blocks(path):
        columns = _columns(block)
        if columns is None:
            reader.add_lines(block.lines())
        else:
            reader.add_columns(columns, block.number)
    run = reader.ranked()
    if not run:
        raise InputError("no results in it", path=path)
    return run


def parse_run(path: str | Path, numbered: Iterable[tuple[int, str]]) -> dict[str, list[tuple[str, float]]]:
    """As `read_run`, of `numbered`, (line number, line); empty where there are no lines. `path` names the file in messages."""
    reader = _Reader(path)
    reader.add_lines(numbered)
    return reader.ranked()


def _columns(block: TextBlock) -> Columns | None:
    """The columns of a block; None where a line has, or may have, something to report, or is blank.

    Stricter than `_Reader.add_lines`, which then decides: ranks must be digits only.
    """
    if not block.may_be_too_long and (plain := plain_columns(block.raw)) is not None:
        return plain
    if len(block.raw.translate(None, _ASCII_CONTROLS)) < len(block.raw) or (text := block.text()) is None:
        return None
    if b"\r" in block.raw and b"\n" not in block.raw:
        return None
    if not text.isascii() and _CONTROLS.search(text):
        return None
    if not text.endswith("\n"):
        text += "\n"
    lines = text.count("\n")
    # NUL, which no line has here, marks the ends of lines, so that one call splits them all.
    parts = text.replace("\n", " \0 ").split()
    width = len(parts) // lines
    if width not in (4, 7) or len(parts) != width * lines or parts[width - 1 :: width].count("\0") < lines:
        return None
    trec = width == 7
    qids, docids, ranks = parts[::width], parts[1 + trec :: width], parts[2 + trec :: width]
    digits = "".join(ranks)
    if not (digits.isascii() and digits.isdecimal()) or max(map(len, ranks)) > MAX_DIGITS:
        return None
    if max(map(len, docids)) > MAX_ID // 4 or max(map(len, qids)) > MAX_ID // 4:
        return None
    if trec and not ((joined := "".join(parts[4::width])).isascii() and "_" not in joined):
        return None
    try:
        scores = list(map(float, parts[4::width])) if trec else [_reciprocal(int(rank)) for rank in ranks]
    except ValueError:
        return None
    if not math.isfinite(sum(scores)):
        return None
    starts = [0, *compress(range(1, len(qids)), map(ne, qids[1:], qids))]
    return Columns(starts, [qids[start] for start in starts], docids, list(map(int, ranks)), scores)


@dataclass(slots=True)
class _Topic:
    """What a file lists for a topic, in the file's order."""

    listed: list[tuple[str, float]] = field(default_factory=list)  #: (docid, score)
    ranks: list[int] = field(default_factory=list)
    docids: set[str] = field(default_factory=set)
    descending: bool = True  #: whether every score is below its predecessor

    def add(self, docids: list[str], ranks: list[int], scores: list[float]) -> bool:
        """Adds some lines; False if a document was there already."""
        self.descending &= all(map(gt, scores, scores[1:])) and not (self.listed and scores[0] >= self.listed[-1][1])
        self.listed += zip(docids, scores, strict=True)
        self.ranks += ranks
        self.docids.update(docids)
        return len(self.docids) == len(self.listed)

    def ranked(self) -> list[tuple[str, float]]:
        """The documents by score, then by rank, then by docid."""
        if self.descending:
            return self.listed
        order = sorted((-score, rank, docid) for (docid, score), rank in zip(self.listed, self.ranks, strict=True))
        return [(docid, -score) for score, _, docid in order]


class _Reader:
    """Collects the lines of a run file by topic."""

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)

    def add_lines(self, numbered: Iterable[tuple[int, str]]) -> None:
        """Adds lines one by one; InputError, with the line, for the first that is malformed."""
        for number, line in numbered:
            parts = line.split()
            if not parts:
                continue
            place = f"{self.path}: line {number}"
            try:
                if len(parts) == 6:
                    qid, docid, score = parts[0], parts[2], to_number(parts[4])
                    rank = whole_number(parts[3])
                elif len(parts) == 3:
                    qid, docid, rank = parts[0], parts[1], whole_number(parts[2])
                    score = _reciprocal(rank)
                else:
                    raise InputError(f"{len(parts)} columns, a run has 6 (TREC) or 3 (MS MARCO)", path=place)
            except ValueError:
                shown = " ".join(parts[3:5] if len(parts) == 6 else parts[2:])
                raise InputError(
                    f"rank or score is not a number, or a rank has more than 64 bits: {quote(shown)}", path=place
                ) from None
            if not math.isfinite(score):
                raise InputError(f"score {short(parts[4])} is not finite", path=place)
            if not line.isprintable():
                check_id(qid, "topic", place)
                check_id(docid, "document", place)
            if not self._topics[qid].add([docid], [rank], [score]):
                raise self._twice(number, qid, docid)

    def add_columns(self, columns: Columns, number: int) -> None:
        """Adds the lines from line `number` on; InputError for a document that a topic lists twice."""
        starts, qids, docids, ranks, scores = columns
        for qid, (start, end) in zip(qids, pairwise([*starts, len(docids)]), strict=True):
            topic = self._topics[qid]
            if not topic.add(docids[start:end], ranks[start:end], scores[start:end]):
                seen = {docid for docid, _ in topic.listed[: start - end]}
                for place in range(start, end):
                    if docids[place] in seen:
                        raise self._twice(number + place, qid, docids[place])
                    seen.add(docids[place])

    def ranked(self) -> dict[str, list[tuple[str, float]]]:
        """The run, best documents first."""
        return {qid: topic.ranked() for qid, topic in self._topics.items()}

    def _twice(self, number: int, qid: str, docid: str) -> InputError:
        return InputError(f"topic {short(qid)} lists document {short(docid)} twice", path=self.path, line=number)


def _reciprocal(rank: int) -> float:
    """The score of a rank in MS MARCO's format."""
    return 1.0 / rank if rank > 0 else 1.0


def printed_scores(scores: Iterable[float], decimals: int = DECIMALS) -> list[str]:
    """Scores as text, strictly descending: one that isn't below its predecessor is replaced by the next smaller value.

    They have `decimals` decimals, and descend in single precision, in which trec_eval reads scores: there 25.123457 and
    25.123456 are equal. Scores beyond LARGEST are printed as LARGEST, and below it.

    >>> printed_scores([2.0, 1.5, 1.5])
    ['2.000000', '1.500000', '1.499999']
    """
    unit = 10**decimals
    values = np.clip(np.fromiter(scores, np.float64), -LARGEST, LARGEST)
    steps = np.rint(values * unit) + 0.0  # not -0
    read = (steps / unit).astype(np.float32)
    checked = 0
    for start in (np.flatnonzero(read[1:] >= read[:-1]) + 1).tolist():
        place, last = start, read[start - 1]
        while checked <= place < len(read) and read[place] >= last:
            steps[place] = math.floor(float(np.nextafter(last, np.float32(-np.inf))) * unit)
            last = np.float32(steps[place] / unit)
            place += 1
        checked = max(checked, place)
    if len(steps) and abs(steps).max() < EXACT:
        return list(map(f"%.{decimals}f".__mod__, (steps / unit).tolist()))
    return [_decimal(int(step), decimals) for step in steps.tolist()]


def _decimal(steps: int, decimals: int) -> str:
    """A number of `steps`, units of the last decimal, as text with `decimals` decimals."""
    unit = 10**decimals
    return f"{'-' if steps < 0 else ''}{abs(steps) // unit}.{abs(steps) % unit:0{decimals}d}"


def run_lines(ranked: RankedList, kind: str = "trec", tag: str = "kernelsearch") -> Iterator[str]:
    """Yields the lines of one topic, `ranked`; `kind` is one of FORMATS, `tag` the run's name in TREC's last column."""
    qid, docids, scores = ranked
    if kind == "msmarco":
        for rank, docid in enumerate(docids, 1):
            yield f"{qid}\t{docid}\t{rank}\n"
    else:
        for rank, (docid, score) in enumerate(zip(docids, printed_scores(scores), strict=True), 1):
            yield f"{qid} Q0 {docid} {rank} {score} {tag}\n"


def write_run(path: str | Path, ranked: Iterable[RankedList], kind: str = "trec", tag: str = "kernelsearch") -> int:
    """Writes the run file `path` atomically and returns the number of topics; the other parameters are those of `run_lines`."""
    if kind not in FORMATS:
        raise OptionError(f"{kind!r} is not one of {', '.join(FORMATS)}", option=Flag("output-format"))
    count = 0
    with write_file(path) as stream:
        for topic in ranked:
            stream.write("".join(run_lines(topic, kind, tag)))
            count += 1
    return count
