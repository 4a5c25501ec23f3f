"""Blocks of plain lines of a run file, by column, read by the compiled loop where it was built."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

import numpy as np

from kernelsearch.core import compiled
from kernelsearch.core.compiled import address
from kernelsearch.trec.ids import MAX_ID


class Columns(NamedTuple):
    """The lines of a block by column. Adjacent lines of a topic have one qid; `starts` has the first line of each qid."""

    starts: list[int]
    qids: list[str]
    docids: list[str]
    ranks: list[int]
    scores: list[float]


def plain_columns(raw: bytes) -> Columns | None:
    """The columns of `raw`, whole lines in TREC's form; None without the compiled loop, and where a line isn't plain.

    Plain lines are ASCII and have six columns, a rank of digits and a finite decimal score: nothing to report.
    """
    library = compiled.loops()
    if library is None or not raw:
        return None
    most = raw.count(b"\n") + 1
    docids, qids = (ctypes.create_string_buffer(len(raw) + 1) for _ in range(2))
    starts, ranks, counts = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64), np.empty(4, dtype=np.int64)
    scores = np.empty(most)
    status = library.kernelsearch_run_lines(
        raw, len(raw), most, MAX_ID // 4, docids, qids, address(starts, np.int64, most), address(ranks, np.int64, most),
        address(scores, np.float64, most), address(counts, np.int64, 4),
    )  # fmt: skip
    if status:
        return None
    lines, topics, docid_bytes, qid_bytes = counts.tolist()
    return Columns(
        starts[:topics].tolist(),
        _lines(qids, qid_bytes),
        _lines(docids, docid_bytes),
        ranks[:lines].tolist(),
        scores[:lines].tolist(),
    )


def _lines(buffer: ctypes.Array[ctypes.c_char], size: int) -> list[str]:
    """The ASCII texts in the first `size` bytes of a buffer, each followed by a line feed."""
    return ctypes.string_at(buffer, size - 1).decode("ascii").split("\n")
