"""The click log in an embedded database: one SQLite file, indexed by query and by document.

The records (`impressions`, `tallies`) are stored beside their sums by query and document (`shown`), so that a log can grow
and be aggregated again with another position bias. Position bias follows a power law: a document at position r is examined
with propensity r^-eta. `exposure` sums the propensities over the impressions of a document, `corrected` its clicks divided by
them.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from xxhash import xxh3_128

from kernelsearch.clicks.records import Impression, Record, Tally, normalise_query
from kernelsearch.core.errors import BusyError, ClickLogError, DiskFull, InputError, KernelSearchError
from kernelsearch.core.replacing import temporary_folder
from kernelsearch.core.streams import raise_shortage_of

FORMAT = 1

SCHEMA = """
CREATE TABLE settings(name TEXT PRIMARY KEY, value NUMERIC) WITHOUT ROWID;
CREATE TABLE queries(id INTEGER PRIMARY KEY, text TEXT NOT NULL UNIQUE,
    impressions INTEGER NOT NULL DEFAULT 0, clicks INTEGER NOT NULL DEFAULT 0, squares INTEGER NOT NULL DEFAULT 0);
CREATE TABLE documents(id INTEGER PRIMARY KEY, docid TEXT NOT NULL UNIQUE);
CREATE TABLE impressions(id INTEGER PRIMARY KEY, query INTEGER NOT NULL, docs BLOB NOT NULL, positions BLOB NOT NULL,
    clicked BLOB NOT NULL);
CREATE TABLE tallies(id INTEGER PRIMARY KEY, query INTEGER NOT NULL, doc INTEGER NOT NULL, clicks INTEGER NOT NULL,
    impressions INTEGER NOT NULL, position REAL NOT NULL);
CREATE TABLE shown(query INTEGER NOT NULL, doc INTEGER NOT NULL, impressions INTEGER NOT NULL, clicks INTEGER NOT NULL,
    exposure REAL NOT NULL, corrected REAL NOT NULL, PRIMARY KEY(query, doc)) WITHOUT ROWID;
"""
INDEXES = """
CREATE INDEX IF NOT EXISTS clicked_by_document ON shown(doc, clicks, query) WHERE clicks > 0;
CREATE INDEX IF NOT EXISTS impressions_by_query ON impressions(query);
"""


#: Seconds that a reader waits for a lock. With a write-ahead log only the moment of a checkpoint locks readers out.
READER_TIMEOUT = 2.0
#: Files that SQLite keeps beside a database with a write-ahead log.
SIDE_FILES = ("-wal", "-shm")


@contextmanager
def report_errors(path: Path, action: str = "read") -> Iterator[None]:
    """Turns SQLite's exceptions into BusyError, DiskFull and ClickLogError with the database's path.

    `action` completes the message "cannot be ...": `read` or another participle.
    """
    try:
        yield
    except sqlite3.DatabaseError as problem:
        raise database_error(path, problem, action) from None


def database_error(path: Path, problem: sqlite3.DatabaseError, action: str = "read") -> KernelSearchError:
    """Returns the error of the database `path` for SQLite's exception `problem`; `action` as in `report_errors`."""
    code = (getattr(problem, "sqlite_errorcode", None) or 0) & 0xFF
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return BusyError("locked by another process; try again later", path=path)
    if code == sqlite3.SQLITE_FULL:
        return DiskFull(f"cannot be {action} ({problem})", path=path)
    if not isinstance(problem, sqlite3.OperationalError) or "no such table" in str(problem):
        return ClickLogError(f"not a click database ({problem})", path=path)
    raise_shortage_of(path)
    return ClickLogError(f"cannot be {action} ({problem})", path=path)


def connect_to_read(path: Path) -> sqlite3.Connection:
    """A connection to `path` by which nobody changes records; SQLite takes back what a killed writer has left unfinished."""
    if os.access(path.parent, os.W_OK):
        # Where there is nothing to take back, not even the log of a damaged database is changed.
        mode = "mode=rw" if path.with_name(f"{path.name}-journal").exists() else "mode=ro"
    else:  # files that SQLite needs beside a write-ahead log cannot be made; without them, nobody is changing the database
        mode = "immutable=1" if _has_write_ahead_log(path) and not Path(f"{path}-shm").exists() else "mode=ro"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?{mode}", uri=True, timeout=READER_TIMEOUT, check_same_thread=False
    )
    connection.execute("PRAGMA query_only = ON")
    return connection


def _has_write_ahead_log(path: Path) -> bool:
    """Whether the header of a database says that changes are in a write-ahead log: version 2 of the format."""
    try:
        with open(path, "rb") as stream:
            return stream.read(20)[18:] == b"\x02\x02"
    except OSError:
        return False  # SQLite reports why it cannot be read


class Shown(NamedTuple):
    """Counts by (query, document) in parallel arrays; queries and documents are numbers of the log."""

    queries: NDArray[np.int64]
    docs: NDArray[np.int64]
    impressions: NDArray[np.float64]
    clicks: NDArray[np.float64]
    exposure: NDArray[np.float64]
    corrected: NDArray[np.float64]

    def of(self, query: int) -> Shown:
        """The entries of one query; entries must be ordered by query."""
        low, high = np.searchsorted(self.queries, [query, query + 1])
        return Shown._make(column[low:high] for column in self)


@dataclass(frozen=True)
class Totals:
    """The size of a log."""

    queries: int
    documents: int
    impressions: int
    tallies: int
    pairs: int
    clicks: int
    clicked_pairs: int
    eta: float


@dataclass(frozen=True)
class _Reader:
    """A thread's connection, closed with its log. It refers to itself, so that it would stay open until a collection."""

    connection: sqlite3.Connection

    def __del__(self) -> None:
        self.connection.close()  # maybe in another thread


class ClickLog:
    """A stored click log, the file `path`, opened for reading. Safe to use from several threads."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._local = threading.local()
        if not self.path.is_file():
            raise InputError("no such click database; make one with python -m kernelsearch.clicks import", path=self.path)
        self.identity = file_identity(self.path)
        settings = dict(self._rows("SELECT name, value FROM settings"))
        if settings.get("format") != FORMAT:
            raise ClickLogError(
                f"click database of format {settings.get('format')}, this version reads {FORMAT}", path=self.path
            )
        self.eta = float(settings["eta"])
        self.generation = int(settings["generation"])  #: increases with every change, to detect stale derived data
        self.documents = int(self._rows("SELECT COUNT(*) FROM documents")[0][0])

    def _rows(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with report_errors(self.path):
            if not hasattr(self._local, "reader"):
                connection = connect_to_read(self.path)
                connection.execute("PRAGMA cache_size = -65536")
                # Checked after connecting: a connection keeps the file that it has opened.
                if file_identity(self.path) != self.identity:
                    connection.close()
                    raise ClickLogError("the click database has been replaced since it was opened", path=self.path)
                self._local.reader = _Reader(connection)
            rows: list[tuple[Any, ...]] = self._local.reader.connection.execute(statement, values).fetchall()
        return rows

    def changed(self) -> bool:
        """Whether the file has been replaced, or records have been added, since the log was opened."""
        if file_identity(self.path) != self.identity:
            return True
        return int(self._rows("SELECT value FROM settings WHERE name = 'generation'")[0][0]) != self.generation

    def totals(self) -> Totals:
        """Counts over the whole log."""
        count = {name: self._rows(f"SELECT COUNT(*) FROM {name}")[0][0] for name in ("queries", "impressions", "tallies")}
        pairs, clicks, clicked = self._rows("SELECT COUNT(*), TOTAL(clicks), TOTAL(clicks > 0) FROM shown")[0]
        return Totals(
            **count, documents=self.documents, pairs=pairs, clicks=int(clicks), clicked_pairs=int(clicked), eta=self.eta
        )

    def query_ids(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """The numbers of queries in the log, shape (texts,); -1 for a query that never occurred."""
        wanted = [normalise_query(text) for text in texts]
        ids = dict(self._rows("SELECT text, id FROM queries WHERE text IN (SELECT value FROM json_each(?))", (_json(wanted),)))
        return np.array([ids.get(text, -1) for text in wanted], dtype=np.int64)

    def query_texts(self, ids: NDArray[np.integer]) -> list[str]:
        """The texts of queries, in the order of `ids`."""
        texts = dict(self._rows("SELECT id, text FROM queries WHERE id IN (SELECT value FROM json_each(?))", (_json(ids),)))
        return [texts[number] for number in np.asarray(ids).tolist()]

    def all_queries(self, clicked_only: bool = True, every: int = 1) -> Iterable[tuple[int, str]]:
        """Yields (number, text) of the queries in order of number.

        `clicked_only` leaves out queries without clicks, `every` those whose number is no multiple of it.
        """
        where = "AND clicks > 0" if clicked_only else ""
        with report_errors(self.path), closing(connect_to_read(self.path)) as connection:
            yield from connection.execute(f"SELECT id, text FROM queries WHERE id % ? = 0 {where} ORDER BY id", (every,))

    def records(self) -> Iterator[Record]:
        """Yields the records that the log was made of: the lists, then the rows of tables, each in the order of import."""
        with report_errors(self.path), closing(connect_to_read(self.path)) as connection:
            connection.execute("BEGIN")  # all of it in one state, whoever adds records meanwhile
            docids = ["", *(docid for (docid,) in connection.execute("SELECT docid FROM documents ORDER BY id"))]
            for text, *row in connection.execute(
                "SELECT text, docs, positions, clicked FROM impressions AS i JOIN queries AS q ON q.id = i.query ORDER BY i.id"
            ):
                docs, positions, clicked = (column.tolist() for column in _unpacked(*row))
                yield Impression(text, tuple(docids[doc] for doc in docs), tuple(positions), tuple(clicked))
            yield from map(
                Tally._make,
                connection.execute(
                    "SELECT text, docid, t.clicks, t.impressions, position FROM tallies AS t "
                    "JOIN queries AS q ON q.id = t.query JOIN documents AS d ON d.id = doc ORDER BY t.id"
                ),
            )

    def clicked_queries(self) -> int:
        """The number of queries with at least one click."""
        return int(self._rows("SELECT COUNT(*) FROM queries WHERE clicks > 0")[0][0])

    def most_clicked(self, limit: int) -> list[tuple[str, int, int]]:
        """(text, impressions, clicks) of the `limit` queries with most clicks."""
        rows = self._rows("SELECT text, impressions, clicks FROM queries ORDER BY clicks DESC, text LIMIT ?", (limit,))
        return [(text, impressions, clicks) for text, impressions, clicks in rows]

    def beginning_with(self, prefix: str, limit: int) -> list[tuple[str, int, int]]:
        """(text, impressions, clicks) of at most `limit` clicked queries that begin with a prefix, most clicked first."""
        start = " ".join(prefix.casefold().split()) + (" " if prefix[-1:].isspace() and prefix.strip() else "")
        # A range query uses the index over texts; the last code point ends the range.
        rows = self._rows(
            "SELECT text, impressions, clicks FROM queries WHERE text >= ? AND text < ? AND clicks > 0 "
            "ORDER BY clicks DESC, text LIMIT ?",
            (start, start + "\U0010ffff", limit),
        )
        return [(text, impressions, clicks) for text, impressions, clicks in rows]

    def counts(self) -> dict[str, int]:
        """The numbers of queries, shown lists and clicks in the log."""
        queries, clicks = self._rows("SELECT COUNT(*), TOTAL(clicks) FROM queries")[0]
        shown = self._rows("SELECT COUNT(*) FROM impressions")[0][0]
        return {"queries": queries, "impressions": shown, "clicks": int(clicks)}

    def docids(self, docs: NDArray[np.integer] | None = None) -> list[str]:
        """The docids of document numbers; of all documents, by number from 1, where `docs` is None."""
        if docs is None:
            return [docid for (docid,) in self._rows("SELECT docid FROM documents ORDER BY id")]
        docids = dict(
            self._rows("SELECT id, docid FROM documents WHERE id IN (SELECT value FROM json_each(?))", (_json(docs),))
        )
        return [docids[number] for number in np.asarray(docs).tolist()]

    def shown(self, queries: NDArray[np.integer], clicked_only: bool = False) -> Shown:
        """Counts of the documents shown for some queries, with `clicked_only` of the clicked ones, by query, then document."""
        rows = self._rows(
            "SELECT query, doc, impressions, clicks, exposure, corrected FROM shown "
            f"WHERE query IN (SELECT value FROM json_each(?)) {'AND clicks > 0' if clicked_only else ''} ORDER BY query, doc",
            (_json(queries),),
        )
        table = np.array(rows, dtype=np.float64).reshape(len(rows), 6)
        return Shown(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), *table[:, 2:].T)

    def clicking(
        self, docs: NDArray[np.integer], limit: int = 5000
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """Queries with clicks on `docs`: arrays of query, document and clicks of the `limit` most clicked entries."""
        rows = self._rows(
            "SELECT query, doc, clicks FROM shown WHERE clicks > 0 AND doc IN (SELECT value FROM json_each(?)) "
            "ORDER BY clicks DESC, query, doc LIMIT ?",
            (_json(docs), limit),
        )
        table = np.array(rows, dtype=np.int64).reshape(len(rows), 3)
        return table[:, 0], table[:, 1], table[:, 2].astype(np.float64)

    def moments(self, queries: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The sums of clicks and of squared clicks over documents, for each of some queries, shape (queries,) each."""
        rows = self._rows(
            "SELECT id, clicks, squares FROM queries WHERE id IN (SELECT value FROM json_each(?)) ORDER BY id",
            (_json(queries),),
        )
        table = np.array(rows, dtype=np.float64).reshape(len(rows), 3)
        places = np.searchsorted(table[:, 0], queries)
        return table[places, 1], table[places, 2]

    def impressions(
        self, query: int, limit: int = 1000
    ) -> list[tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]]:
        """The latest `limit` lists that were shown for a query: (documents, positions, clicked) of each."""
        rows = self._rows(
            "SELECT docs, positions, clicked FROM impressions WHERE query = ? ORDER BY id DESC LIMIT ?", (int(query), limit)
        )
        return [_unpacked(*row) for row in rows]


def file_identity(path: Path) -> tuple[int, int] | None:
    """Device and inode of the file `path`, which a file that replaces it does not share; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _json(values: Any) -> str:
    return json.dumps(values.tolist() if isinstance(values, np.ndarray) else list(values))


def _unpacked(docs: bytes, positions: bytes, clicked: bytes) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    return (
        np.frombuffer(docs, dtype="<i4").astype(np.int64),
        np.frombuffer(positions, dtype="<i4").astype(np.int64),
        np.frombuffer(clicked, dtype=np.bool_),
    )


@contextmanager
def new_database(path: Path) -> Iterator[Path]:
    """Yields the name of a database that replaces `path` when complete; it is removed at the end with its journal."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with temporary_folder(path) as folder:
        yield folder / path.name


def remove_side_files(path: Path) -> None:
    """Removes what SQLite keeps beside the database `path` that is about to be replaced: it would be applied to the new one."""
    for suffix in SIDE_FILES:
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def replace_database(path: Path, successor: Path) -> Path | None:
    """Renames the complete database `successor` to `path`, and returns the copy of what it replaces, as `keep_replaced` does.

    Raises InputError where `path` is another file.
    """
    saved = keep_replaced(path, successor)
    remove_side_files(path)
    os.replace(successor, path)
    return saved


def keep_replaced(path: Path, successor: Path) -> Path | None:
    """Copies a database that is about to be replaced to the folder `replaced` beside it, and returns the copy's path.

    An index that is exchanged keeps this folder. None where there is no database or an empty file, or its successor or an
    earlier copy has the same records. Raises InputError where `path` is another file.
    """
    if not path.is_file() or not path.stat().st_size or (records := _records(path)) == _records(successor):
        return None
    number = 1
    while (saved := path.parent / "replaced" / f"{path.stem}-{number}{path.suffix}").exists():
        if _records(saved) == records:
            return None
        number += 1
    with report_errors(path), closing(connect_to_read(path)) as original:
        original.execute("SELECT value FROM settings").fetchone()  # refuses another file before a folder is made
        saved.parent.mkdir(exist_ok=True)
        with closing(sqlite3.connect(saved)) as copy:
            original.backup(copy)
    return saved


def _records(path: Path) -> list[Any] | None:
    """A digest of a log's records, which the sums are made of; None for a file that is not a click database."""
    try:
        with closing(connect_to_read(path)) as connection:
            digest = []
            for table in ("settings", "queries", "documents", "impressions", "tallies"):
                columns = "name, value" if table == "settings" else "*"
                where = "WHERE name != 'generation'" if table == "settings" else ""
                hashed = xxh3_128()
                for row in connection.execute(f"SELECT {columns} FROM {table} {where} ORDER BY 1"):
                    hashed.update(repr(row).encode())
                digest.append(hashed.hexdigest())
            return digest
    except sqlite3.Error:
        return None
