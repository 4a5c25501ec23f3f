"""What an index keeps of the one that it replaces: recorded clicks, and models that can't be trained again from it."""

from __future__ import annotations

import logging
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path

from kernelsearch.api.index_artefacts import known_kinds
from kernelsearch.clicks.store import connect_to_read, remove_side_files
from kernelsearch.core.errors import BusyError, InputError
from kernelsearch.core.files import copy_tree
from kernelsearch.core.reading import parse_json
from kernelsearch.core.replacing import lock_folder
from kernelsearch.core.streams import raise_shortage
from kernelsearch.lucene.shards import ADDED_FOLDER

logger = logging.getLogger(__name__)

#: The click log that a service records.
CLICKS = "clicks.db"
#: Seconds to wait for a click log that another process has locked.
LOCK_WAIT = 10.0
#: The folder in ADDED_FOLDER for models of a replaced index, which were trained from judgements or clicks.
REPLACED = "replaced"


def carrying_clicks(old: Path) -> Callable[[Path], AbstractContextManager[None]]:
    """For `write_folder(last=...)`: copies the recorded clicks of the index `old`; nobody can add one until it is replaced.

    Clicks refer to docids, so they stay in use. Raises BusyError where the log stays locked.
    """

    @contextmanager
    def carry(new: Path) -> Iterator[None]:
        source, target = old / ADDED_FOLDER, new / ADDED_FOLDER
        if not source.is_dir():
            yield
            return
        with lock_folder(source, LOCK_WAIT):
            if (source / CLICKS).is_file():
                target.mkdir(exist_ok=True)
                copy_database(source / CLICKS, target / CLICKS)
                logger.info("%s: recorded clicks are carried over", old)
            yield

    return carry


def carry_over(old: Path, new: Path) -> None:
    """Copies models that can't be trained again from the index `old` into its successor `new`, and logs what is dropped.

    Models that were trained from judgements or clicks are kept apart, in `kernelsearch/replaced`, because their features were
    computed on the old index.
    """
    source, target = old / ADDED_FOLDER, new / ADDED_FOLDER
    if not source.is_dir():
        return
    target.mkdir(exist_ok=True)
    if (source / REPLACED).is_dir():
        copy_tree(source / REPLACED, target / REPLACED)
    dropped = []
    for folder in sorted(meta.parent for meta in source.rglob("meta.json")):
        name = folder.relative_to(source)
        if any(part.startswith(".") for part in name.parts) or name.parts[0] in (REPLACED, "forward"):
            continue
        if not keep_trained(old, folder, name, target):
            dropped.append(str(name))
    if dropped:
        logger.info("%s: dropped with the old index, to be made again: %s", old, ", ".join(dropped))


def keep_trained(old: Path, folder: Path, name: Path, target: Path) -> bool:
    """Copies the artefact `folder` of the index `old`, called `name`, to `target`/replaced if it was trained; else False."""
    if not _is_trained(folder):
        return False
    copy_tree(folder, target / REPLACED / name)
    place = Path(ADDED_FOLDER) / REPLACED
    logger.info("%s: the trained model %s is kept in %s; train it again for the new index", old, name, place)
    return True


def _is_trained(folder: Path) -> bool:
    """Whether an artefact was trained from judgements or clicks, which the index doesn't have."""
    try:
        meta = parse_json((folder / "meta.json").read_bytes(), "meta.json")
        return known_kinds()[meta["kind"]].learned(meta)
    except (OSError, InputError, KeyError, TypeError) as problem:
        raise_shortage(problem)
        return True  # damaged, or of a method that isn't installed: rather kept than lost


def copy_database(source: Path, target: Path) -> None:
    """Copies an SQLite database that a service may be writing, with what is only in its write-ahead log.

    `source` is the database, `target` the copy. A database that SQLite can't read is copied file by file. Raises BusyError
    where it stays locked.
    """
    end = time.monotonic() + LOCK_WAIT

    def give_up(status: int, remaining: int, total: int) -> None:
        # `backup` itself has no time limit.
        if status in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) and time.monotonic() > end:
            raise BusyError("locked by another process, so its clicks cannot be carried over; try again later", path=source)

    try:
        with closing(connect_to_read(source)) as original, closing(sqlite3.connect(target)) as copy:
            original.backup(copy, progress=give_up)
    except sqlite3.Error:
        remove_side_files(target)
        for file in source.parent.glob(f"{source.name}*"):
            shutil.copy2(file, target.parent / file.name)
