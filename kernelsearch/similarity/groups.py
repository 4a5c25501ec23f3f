"""Groups of documents that belong together, to learn similarity from: by judgements, clicks or classes, or listed in pairs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from kernelsearch.clicks.importing import opened_log
from kernelsearch.core.errors import InputError, quote
from kernelsearch.core.reading import lines

Groups = list[list[str]]


def groups_from_qrels(qrels: Mapping[str, Mapping[str, int]]) -> Groups:
    """The docids that are relevant to each topic; `qrels` is {qid: {docid: grade}}."""
    return [[docid for docid, grade in grades.items() if grade > 0] for grades in qrels.values()]


def groups_from_pairs(path: str | Path) -> Groups:
    """The pairs of the file `path` with two docids per line, separated by a tab or by blanks.

    Raises InputError, with the number of the line, for a line with another number of docids.
    """
    pairs = []
    for number, line in lines(path):
        if line.strip():
            pair = line.split("\t") if "\t" in line else line.split()
            if len(pair) != 2:
                raise InputError(f"two docids were expected, {len(pair)} found", path=path, line=number)
            pairs.append([docid.strip() for docid in pair])
    return pairs


def groups_from_classes(path: str | Path) -> Groups:
    """The docids of each class, from the file `path` with a docid and a class per line, separated by a tab or by blanks.

    A document may have several classes, a line each. Raises InputError, with the line, for a line of another form.
    """
    classes: dict[str, list[str]] = {}
    for number, line in lines(path):
        if line.strip():
            parts = line.rstrip("\n").split("\t") if "\t" in line else line.split(None, 1)
            if len(parts) != 2 or not all(part.strip() for part in parts):
                raise InputError("a docid and a class were expected", path=path, line=number)
            classes.setdefault(parts[1].strip(), []).append(parts[0].strip())
    return list(classes.values())


def read_docids(path: str | Path) -> list[str]:
    """The docids of the file `path`, one per line.

    Raises InputError for an empty file and, with the line, for a docid that appears twice.
    """
    groups: dict[str, int] = {}
    for number, line in lines(path):
        docid = line.strip()
        if docid in groups:
            raise InputError(f"{quote(docid)} appears twice", path=path, line=number)
        if docid:
            groups[docid] = number
    if not groups:
        raise InputError("no docids in it", path=path)
    return list(groups)


def groups_from_clicks(path: str | Path) -> Groups:
    """The docids that were clicked for each query of the click log or database `path`. Raises InputError where it is none."""
    groups: dict[int, list[str]] = {}
    with opened_log(path) as log:
        shown = log.shown(np.array([number for number, _ in log.all_queries()], dtype=np.int64), clicked_only=True)
        for query, docid in zip(shown.queries.tolist(), log.docids(shown.docs), strict=True):
            groups.setdefault(query, []).append(docid)
    return list(groups.values())
