"""The most frequent work of an import: sums by query and document, and numbers for names, both in bounded memory."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import numpy as np
from numpy.typing import NDArray

#: Largest number of (query, document) pairs, 40 bytes each, whose sums are collected in memory before they are written.
COLLECTED = 2_000_000
#: Largest number of queries, and of documents, whose numbers are remembered between batches.
REMEMBERED = 500_000


class ShownSums:
    """Counts by (query, document), summed in memory and added to the table `shown` in the order of its key.

    Popular queries recur in every batch: summing them before they are written saves most of the updates, and rows that arrive
    in the order of the key are inserted without a search. `eta` is the strength of the position bias. `connection` is that of
    the database.
    """

    def __init__(self, connection: sqlite3.Connection, eta: float) -> None:
        self._connection, self._eta = connection, eta
        self._parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]] = []
        self._size = 0

    def add(
        self,
        queries: NDArray[Any],
        docs: NDArray[Any],
        impressions: NDArray[Any],
        clicks: NDArray[Any],
        positions: NDArray[Any],
    ) -> None:
        """Adds counts, in parallel arrays: queries, documents (`docs`), impressions, clicks, and (average) positions from 1."""
        propensity = positions.astype(np.float64) ** -self._eta
        keys = queries.astype(np.int64) << 32 | docs.astype(np.int64)
        self._keep(*_summed(keys, np.array([impressions, clicks, impressions * propensity, clicks / propensity])))
        if self._size > COLLECTED:
            parts, self._parts, self._size = self._parts, [], 0
            self._keep(*_joined(parts))
            if self._size > COLLECTED // 2:
                self.write()

    def _keep(self, keys: NDArray[np.int64], counts: NDArray[np.float64]) -> None:
        self._parts.append((keys, counts))
        self._size += len(keys)

    def write(self) -> None:
        """Adds the collected sums to the table."""
        if not self._parts:
            return
        keys, counts = _joined(self._parts)
        self._parts, self._size = [], 0
        self._connection.executemany(
            "INSERT INTO shown VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT(query, doc) DO UPDATE SET "
            "impressions = impressions + excluded.impressions, clicks = clicks + excluded.clicks, "
            "exposure = exposure + excluded.exposure, corrected = corrected + excluded.corrected",
            zip(
                (keys >> 32).tolist(),
                (keys & 0xFFFFFFFF).tolist(),
                counts[0].astype(np.int64).tolist(),
                counts[1].astype(np.int64).tolist(),
                counts[2].tolist(),
                counts[3].tolist(),
                strict=True,
            ),
        )


def _joined(parts: list[tuple[NDArray[np.int64], NDArray[np.float64]]]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    if len(parts) == 1:
        return parts[0]
    keys, counts = zip(*parts, strict=True)
    return _summed(np.concatenate(keys), np.concatenate(counts, axis=1))


def _summed(keys: NDArray[np.int64], counts: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The distinct keys, ascending, and the sums of their counts, shape (4, keys)."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    return ordered[starts], np.add.reduceat(counts[:, order], starts, axis=1)


class Numbers:
    """Numbers for names, from 1 in the order of first occurrence, in a `table` with a `column` of names behind `connection`."""

    def __init__(self, connection: sqlite3.Connection, table: str, column: str) -> None:
        self._connection = connection
        self._insert = f"INSERT INTO {table}(id, {column}) VALUES (?, ?)"
        self._select = f"SELECT {column}, id FROM {table} WHERE {column} IN (SELECT value FROM json_each(?))"
        self._known: dict[str, int] = {}
        self._last = int(connection.execute(f"SELECT COALESCE(MAX(id), 0) FROM {table}").fetchone()[0])
        self._complete = self._last == 0  #: whether every name of the table is remembered

    def of(self, names: list[str]) -> NDArray[np.int64]:
        """The numbers of these names, shape (names,); new names are added to the table."""
        new = [name for name in dict.fromkeys(names) if name not in self._known]
        if len(self._known) + len(new) > REMEMBERED:
            self._known.clear()
            self._complete = False
            new = list(dict.fromkeys(names))
        if new and not self._complete:
            self._known.update(self._connection.execute(self._select, (json.dumps(new),)).fetchall())
            new = [name for name in new if name not in self._known]
        added = dict(zip(new, range(self._last + 1, self._last + 1 + len(new)), strict=True))
        self._connection.executemany(self._insert, ((number, name) for name, number in added.items()))
        self._known.update(added)
        self._last += len(new)
        return np.fromiter(map(self._known.__getitem__, names), dtype=np.int64, count=len(names))
