"""Groups of documents that belong together, to learn similarity from: by judgements, by clicks, or listed in pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import InputError
from kernelsearch.core.reading import lines

Groups = list[list[str]]


def groups_from_qrels(qrels: Mapping[str, Mapping[str, int]]) -> Groups:
    """The docids that are relevant to each topic; `qrels` is {qid: {docid: grade}}."""
    return [[docid for docid, grade in grades.items() if grade > 0] for grades in qrels.values()]


def groups_from_pairs(path: str | Path) -> Groups:
    """The pairs of a file with two docids per line, separated by a tab or by blanks.

    Raises InputError, with the number of the line, for a line with another number of docids.
    """
    pairs = []
    for number, line in lines(path):
        if line.strip():
            pair = line.split("\t") if "\t" in line else line.split()
            if len(pair) != 2:
                raise InputError(f"{path}: line {number}: two docids were expected, {len(pair)} found")
            pairs.append([docid.strip() for docid in pair])
    return pairs


def groups_from_clicks(path: str | Path) -> Groups:
    """The docids that were clicked for each query of a click database."""
    log = ClickLog(Path(path))
    shown = log.shown(np.array([number for number, _ in log.all_queries()], dtype=np.int64), clicked_only=True)
    groups: dict[int, list[str]] = {}
    for query, docid in zip(shown.queries.tolist(), log.docids(shown.docs), strict=True):
        groups.setdefault(query, []).append(docid)
    return list(groups.values())
