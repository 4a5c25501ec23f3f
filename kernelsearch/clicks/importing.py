"""Filling a click database: records are read in batches, sums are updated, and memory stays bounded."""

from __future__ import annotations

import dataclasses
import errno
import logging
import os
import sqlite3
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from kernelsearch.clicks.records import SQLITE, Impression, Record, Skipped, Tally, read
from kernelsearch.clicks.store import (
    FORMAT,
    INDEXES,
    SCHEMA,
    ClickLog,
    database_error,
    new_database,
    replace_database,
    report_errors,
)
from kernelsearch.clicks.sums import Numbers, ShownSums
from kernelsearch.core.errors import BusyError, ClickLogError, DiskFull, Flag, InputError, OptionError
from kernelsearch.core.files import not_writable, refuse_special
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.replacing import lock_folder

logger = logging.getLogger(__name__)

#: Records per batch.
BATCH = 20_000
#: Seconds that an import waits for another one to finish.
WRITER_TIMEOUT = 60.0


@dataclass(frozen=True)
class Imported:
    """The outcome of an import.

    Attributes: numbers of `impressions` and of rows of tables (`tallies`); the lines that were `skipped`; `replaced`, the copy
    of another database that had the name.
    """

    impressions: int
    tallies: int
    skipped: Skipped
    replaced: Path | None = None


def is_database(source: str | Path) -> bool:
    """Whether `source` is a file that begins as an SQLite database does."""
    if not os.path.isfile(source):  # a pipe is read once
        return False
    try:
        with open(source, "rb") as stream:
            return stream.read(len(SQLITE)) == SQLITE
    except OSError:
        return False  # the reader says why


def read_log(source: str | Path, skipped: Skipped) -> Iterator[Record]:
    """Yields the records of `source`, a click database or a log file; lines that can't be used are counted in `skipped`."""
    return ClickLog(source).records() if is_database(source) else read(source, skipped)


@contextmanager
def opened_log(source: str | Path) -> Iterator[ClickLog]:
    """The click database `source`; of a log file, a temporary database for the time of the block."""
    if is_database(source) or not os.path.exists(source):
        yield ClickLog(source)
        return
    with tempfile.TemporaryDirectory() as folder:
        import_log([source], Path(folder, "clicks.db"))
        yield ClickLog(Path(folder, "clicks.db"))


def import_log(
    sources: Sequence[str | Path],
    path: str | Path,
    *,
    append: bool = False,
    eta: float | None = None,
    progress: Progress = silent,
    read_source: Callable[[str, Skipped], Iterator[Record]] = read_log,
) -> Imported:
    """Reads `sources`, log files and databases, into the database `path`; a new one appears under its name when complete.

    The numbers of records and of skipped lines are logged, with the first skipped line of each reason.

    Another database of that name is copied to the folder `replaced` beside it: clicks can't be made again.
    `append` adds to an existing database, in one transaction, and keeps its `eta`. For a new database, `eta` is the strength of
    the position bias (default: that of the databases among the sources, otherwise 1). `progress` gets the progress,
    `read_source` reads a source. Raises InputError for files that are no click logs or a database that can't be written,
    OptionError for an `eta` that differs from that of an existing database, and for none where those of the sources differ.
    """
    skipped, name = Skipped(), ", ".join(map(str, sources))
    if eta is None and not (append and Path(path).is_file()):
        strengths = {ClickLog(source).eta for source in sources if is_database(source)}
        if len(strengths) > 1:
            values = " and ".join(f"{value:g}" for value in sorted(strengths))
            raise OptionError(f"{name} were made with {values}", option=Flag("eta"))
        eta = next(iter(strengths), None)
    records = (record for source in sources for record in read_source(str(source), skipped))
    imported = import_records(records, path, skipped=skipped, append=append, eta=eta, name=name, progress=progress)
    counts = ((imported.impressions, "impressions"), (imported.tallies, "rows"))
    text = " and ".join(f"{count} {what}" for count, what in counts if count)
    level = logging.WARNING if skipped.total else logging.INFO
    logger.log(level, "%s: %s imported, %d lines skipped", name, text, skipped.total)
    for line in skipped.lines():
        logger.warning("  skipped %s", line)
    return imported


def import_records(
    records: Iterable[Record],
    path: str | Path,
    *,
    skipped: Skipped | None = None,
    append: bool = False,
    eta: float | None = None,
    name: str = "records",
    progress: Progress = silent,
    timeout: float = WRITER_TIMEOUT,
    allow_empty: bool = False,
) -> Imported:
    """As `import_log`, from any iterable of records; `name` is what messages call their source.

    Raises InputError where there is no record, unless `allow_empty`.

    `path`, `append`, `eta` and `progress` are those of `import_log`. `skipped` has the lines that were left out before, and is
    returned with the counts. Raises BusyError where another process has the database locked for more than `timeout` seconds.
    """
    path, skipped = Path(path), skipped or Skipped()
    refuse_special(path)
    exists = path.is_file() and path.stat().st_size > 0
    if append and exists:
        with _changing(path, timeout) as connection:
            stored = _setting(connection, path, "eta")
            if eta is not None and eta != stored:
                raise OptionError(
                    f"{path} was made with {stored:g}; python -m kernelsearch.clicks aggregate changes it", option=Flag("eta")
                )
            return _fill(connection, records, skipped, stored, name, progress, allow_empty)
    try:
        with new_database(path) as temporary:
            with closing(_connect(temporary)) as connection:
                # The file is not read before it has its name, so a crash leaves nothing that a journal could save.
                connection.execute("PRAGMA journal_mode = OFF")
                connection.execute("PRAGMA synchronous = OFF")
                connection.executescript(SCHEMA)
                strength = 1.0 if eta is None else float(eta)
                connection.executemany(
                    "INSERT INTO settings VALUES (?, ?)", [("format", FORMAT), ("eta", strength), ("generation", 0)]
                )
                imported = _fill(connection, records, skipped, strength, name, progress, allow_empty)
                connection.commit()
            with open(temporary, "rb+") as stream:
                os.fsync(stream.fileno())
            temporary.chmod(0o644)
            # Whoever appends holds the lock.
            with nullcontext() if append or not exists else lock_folder(path.absolute().parent, timeout):
                replaced = replace_database(path, temporary)
    except OSError as problem:
        failure = not_writable(path, problem)
        raise failure if isinstance(failure, DiskFull) else ClickLogError(*failure.args, path=path) from None
    except sqlite3.OperationalError as problem:
        raise database_error(path, problem, "written") from None
    return dataclasses.replace(imported, replaced=replaced)


def prepare(path: Path) -> None:
    """Makes an empty click log `path` where there is none; ClickLogError or InputError where records can't be added to it."""
    if not (path.is_file() and path.stat().st_size):
        import_records((), path, append=True, allow_empty=True)
        return
    if not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)):
        raise ClickLogError(f"cannot be written ({os.strerror(errno.EACCES)})", path=path)
    # Taken back, so that what was derived from the log stays valid. A log that is locked is being written.
    with suppress(BusyError), report_errors(path, "written"), closing(_connect(path, timeout=0)) as connection:
        connection.execute("UPDATE settings SET value = value")
        connection.rollback()


def aggregate(path: str | Path, eta: float) -> None:
    """Sums the records of the database `path` again, with another strength `eta` of the position bias.

    Raises InputError where there is no such database.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError("no such click database", path=path)
    with _changing(path) as connection:
        connection.execute("DELETE FROM shown")
        sums = ShownSums(connection, eta)
        last = 0
        while rows := connection.execute(
            "SELECT id, query, docs, positions, clicked FROM impressions WHERE id > ? ORDER BY id LIMIT ?", (last, BATCH)
        ).fetchall():
            last = rows[-1][0]
            sizes = [len(row[4]) for row in rows]
            docs = np.frombuffer(b"".join(row[2] for row in rows), dtype="<i4")
            positions = np.frombuffer(b"".join(row[3] for row in rows), dtype="<i4")
            clicked = np.frombuffer(b"".join(row[4] for row in rows), dtype=np.uint8)
            queries = np.repeat([row[1] for row in rows], sizes)
            sums.add(queries, docs, np.ones(len(docs)), clicked, positions)
        last = 0
        while rows := connection.execute(
            "SELECT id, query, doc, impressions, clicks, position FROM tallies WHERE id > ? ORDER BY id LIMIT ?", (last, BATCH)
        ).fetchall():
            last = rows[-1][0]
            query, doc, impressions, clicks, position = np.array(rows, dtype=np.float64)[:, 1:].T
            sums.add(query, doc, impressions, clicks, position)
        sums.write()
        connection.execute("UPDATE settings SET value = ? WHERE name = 'eta'", (eta,))
        _finish(connection)


def _connect(path: Path, timeout: float = WRITER_TIMEOUT) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=timeout)
    connection.execute("PRAGMA cache_size = -262144")
    connection.execute("PRAGMA temp_store = MEMORY")
    return connection


@contextmanager
def _changing(path: Path, timeout: float = WRITER_TIMEOUT) -> Iterator[sqlite3.Connection]:
    """A connection in a transaction that is committed where the block succeeds; readers go on meanwhile."""
    with report_errors(path, "written"), closing(_connect(path, timeout)) as connection:
        _setting(connection, path, "eta")  # a file that is not a click database is left as it is
        with suppress(sqlite3.OperationalError):  # locked, or no place for a write-ahead log: the rollback journal does too
            connection.execute("PRAGMA journal_mode = WAL")
        try:
            with connection:
                # A transaction that begins by reading could not wait for a writer: SQLite refuses it at its first change.
                connection.execute("BEGIN IMMEDIATE")
                yield connection
        finally:
            connection.execute("PRAGMA busy_timeout = 0")
            # The file alone is complete again. Where somebody reads it, the log stays, and the next writer does this.
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute("PRAGMA journal_mode = DELETE")


def _setting(connection: sqlite3.Connection, path: Path, name: str) -> float:
    try:
        settings = dict(connection.execute("SELECT name, value FROM settings").fetchall())
        if settings["format"] == FORMAT:
            return float(settings[name])
    except KeyError:
        raise ClickLogError("not a click database", path=path) from None
    raise ClickLogError(f"click database of format {settings['format']}, this version reads {FORMAT}", path=path)


def _fill(
    connection: sqlite3.Connection,
    records: Iterable[Record],
    skipped: Skipped,
    eta: float,
    name: str,
    progress: Progress,
    allow_empty: bool,
) -> Imported:
    queries, documents = Numbers(connection, "queries", "text"), Numbers(connection, "documents", "docid")
    sums = ShownSums(connection, eta)
    impressions = tallies = 0
    with progress("click log", unit=" records") as bar:
        for batch in _batches(records):
            lists = [record for record in batch if isinstance(record, Impression)]
            rows = [record for record in batch if isinstance(record, Tally)]
            if lists:
                _add_lists(connection, lists, queries, documents, sums)
            if rows:
                _add_rows(connection, rows, queries, documents, sums)
            impressions, tallies = impressions + len(lists), tallies + len(rows)
            bar.update(len(batch))
    if not impressions + tallies and not allow_empty:
        why = f": {skipped.lines()[0]}" if skipped.total else ""
        raise InputError(f"no usable record{why}", path=name)
    sums.write()
    _finish(connection)
    return Imported(impressions, tallies, skipped)


def _batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    iterator = iter(records)
    while batch := list(islice(iterator, BATCH)):
        yield batch


def _add_lists(
    connection: sqlite3.Connection, lists: list[Impression], queries: Numbers, documents: Numbers, sums: ShownSums
) -> None:
    sizes = np.array([len(record.docids) for record in lists])
    numbers = queries.of([record.query for record in lists])
    docs = documents.of([docid for record in lists for docid in record.docids]).astype("<i4")
    positions = np.array([place for record in lists for place in record.positions], dtype="<i4")
    clicked = np.array([click for record in lists for click in record.clicked], dtype=np.uint8)
    doc_bytes, position_bytes, click_bytes = docs.tobytes(), positions.tobytes(), clicked.tobytes()
    ends = np.cumsum(sizes).tolist()
    starts = [0, *ends[:-1]]
    connection.executemany(
        "INSERT INTO impressions(query, docs, positions, clicked) VALUES (?, ?, ?, ?)",
        (
            (query, doc_bytes[4 * a : 4 * b], position_bytes[4 * a : 4 * b], click_bytes[a:b])
            for query, a, b in zip(numbers.tolist(), starts, ends, strict=True)
        ),
    )
    sums.add(np.repeat(numbers, sizes), docs, np.ones(len(docs)), clicked, positions)


def _add_rows(connection: sqlite3.Connection, rows: list[Tally], queries: Numbers, documents: Numbers, sums: ShownSums) -> None:
    numbers, docs = queries.of([row.query for row in rows]), documents.of([row.docid for row in rows])
    connection.executemany(
        "INSERT INTO tallies(query, doc, clicks, impressions, position) VALUES (?, ?, ?, ?, ?)",
        [
            (q, d, row.clicks, row.impressions, row.position)
            for q, d, row in zip(numbers.tolist(), docs.tolist(), rows, strict=True)
        ],
    )
    _, _, clicks, impressions, positions = zip(*rows, strict=True)
    sums.add(numbers, docs, np.array(impressions), np.array(clicks), np.array(positions))


def _finish(connection: sqlite3.Connection) -> None:
    """Updates the sums by query, creates indexes, and increments the generation."""
    connection.execute(
        "UPDATE queries SET clicks = s.clicks, squares = s.squares, impressions = s.impressions FROM "
        "(SELECT query, SUM(clicks) AS clicks, SUM(clicks * clicks) AS squares, MAX(impressions) AS impressions "
        "FROM shown GROUP BY query) AS s WHERE s.query = queries.id"
    )
    for statement in INDEXES.strip().split("\n"):
        connection.execute(statement)
    connection.execute(
        "UPDATE queries SET impressions = MAX(impressions, s.lists) FROM "
        "(SELECT query, COUNT(*) AS lists FROM impressions GROUP BY query) AS s WHERE s.query = queries.id"
    )
    connection.execute("UPDATE settings SET value = value + 1 WHERE name = 'generation'")
