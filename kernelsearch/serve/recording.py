"""The click log of a served index: suggestions from it, and clicks that are added while it is read.

The first click on a shown list adds an impression. Further clicks on the same list, which come with the same token, add clicks
only. Nothing else about a person or a machine is stored.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from typing_extensions import TypedDict

from kernelsearch.clicks.importing import import_records, prepare
from kernelsearch.clicks.records import SQLITE, Impression, Record, Tally, normalise_query
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import Flag, InputError, KernelSearchError
from kernelsearch.core.replacing import lock_folder
from kernelsearch.rerankers.rbm25.similar_queries import check_log, open_log
from kernelsearch.serve.impressions import ClickedLists

if TYPE_CHECKING:
    from kernelsearch.api.index import Index

logger = logging.getLogger(__name__)

#: Seconds that a click waits for another process that writes into the log; readers of this process wait meanwhile.
LOCK_SECONDS = 2.0


class LogSize(TypedDict):
    """The size of a click log."""

    queries: int
    impressions: int
    clicks: int


class ClickRecorder:
    """The click log of one index under a read-write lock: readers share it, a click is written when no reader is active.

    Parameters
    ----------
    index : the index whose pipelines are dropped when the log changes
    log_file : the log; None for the one beside the index. Where clicks are added and there is none, an empty one is made
    recording : whether clicks are added
    clicked : the clicks on lists that were shown, so that a repeated one is counted once
    """

    def __init__(self, index: Index, log_file: str | None, recording: bool, clicked: ClickedLists) -> None:
        self.index, self.log_file, self.recording = index, log_file, recording
        self._clicked = clicked
        self._condition = threading.Condition()
        self._readers = 0
        self._writing = False
        self._log: ClickLog | None = None
        if recording and (log_file is None or Path(log_file).parent.is_dir()):
            if self.path.exists():
                self._refuse_text_file()
            with lock_folder(self.path.parent, LOCK_SECONDS):
                prepare(self.path)
            ClickLog(self.path)  # raises an error for a damaged database
        elif log_file is not None:
            if not self.path.is_file():
                raise InputError(
                    "no such file; python -m kernelsearch.clicks import --input LOG --output FILE makes one of a "
                    "log, and --record-clicks makes one of clicks on the page",
                    option=Flag("clicks"),
                    path=log_file,
                )
            self._log = open_log(index, log_file)
            try:
                check_log(index, self._log, log_file)
            except InputError as problem:
                logger.warning("%s; rbm25 will have nothing to learn from", problem)

    def _refuse_text_file(self) -> None:
        """Raises InputError where the log is a file that clicks cannot be added to."""
        with open(self.path, "rb") as stream:
            if stream.read(len(SQLITE)) not in (SQLITE, b""):
                raise InputError(
                    f"{self.path} is not a database, which clicks are added to; make one of it with python -m "
                    f"kernelsearch.clicks import --input {self.path} --output {self.path.with_suffix('.db')}",
                    option=Flag("record-clicks"),
                )

    @property
    def path(self) -> Path:
        """The log's file; raises IndexReplaced where it is beside an index that has been replaced."""
        return Path(self.log_file) if self.log_file is not None else self.index.artefacts / "clicks.db"

    def refresh(self) -> bool:
        """Drops the opened log and what was derived from it where another process has changed it; returns whether it has."""
        try:
            log = self.log()
            if log is None or not log.changed():
                return False
        except KernelSearchError:
            return False  # locked or damaged: requests that need it report it
        with self._writing_alone():
            self._log = None
            self.index.forget_pipelines()
        return True

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Holds the read lock: a method's state was derived from the log and must match what the method reads from it."""
        with self._condition:
            self._condition.wait_for(lambda: not self._writing)
            self._readers += 1
        try:
            yield
        finally:
            with self._condition:
                self._readers -= 1
                self._condition.notify_all()

    @contextmanager
    def _writing_alone(self) -> Iterator[None]:
        """Holds the write lock."""
        with self._condition:
            self._condition.wait_for(lambda: not self._writing)
            self._writing = True
            self._condition.wait_for(lambda: not self._readers)
        try:
            yield
        finally:
            with self._condition:
                self._writing = False
                self._condition.notify_all()

    def log(self) -> ClickLog | None:
        """The log for reading; None where there is none yet."""
        if self._log is None and self.path.is_file():
            self._log = ClickLog(self.path)
        return self._log

    def suggestions(self, prefix: str, limit: int) -> list[tuple[str, int, int]]:
        """At most `limit` logged queries that begin with `prefix`, most clicked first: text, impressions and clicks."""
        with self.reading():
            log = self.log()
            return log.beginning_with(prefix, limit) if log is not None else []

    def totals(self) -> LogSize | None:
        """The numbers of queries, impressions and clicks in the log; None where there is none."""
        with self.reading():
            log = self.log()
            if log is None:
                return None
            counts = log.counts()
            return {"queries": counts["queries"], "impressions": counts["impressions"], "clicks": counts["clicks"]}

    def record(self, impression: str, query: str, docids: Sequence[str], clicked: str | None) -> bool:
        """Adds a click on a list that was shown for `query`; returns False for a click that is in the log already.

        `impression` is the list's token, `docids` the list, best first, `clicked` one of them, or None for a list without a
        click.
        """
        with self._writing_alone():
            earlier = self._clicked.get(impression)
            if earlier is not None and (clicked is None or clicked in earlier):
                return False
            new: Record
            if earlier is None:
                places = tuple(range(1, len(docids) + 1))
                new = Impression(normalise_query(query), tuple(docids), places, tuple(docid == clicked for docid in docids))
            elif clicked not in docids:
                raise InputError(f"clicked: {clicked!r} is not among the docids")
            else:
                new = Tally(normalise_query(query), str(clicked), 1, 0, docids.index(str(clicked)) + 1)
            with lock_folder(self.path.parent, LOCK_SECONDS):
                # `path` again: it raises IndexReplaced where the index was replaced before its folder was locked.
                import_records([new], self.path, append=True, name="the click", timeout=LOCK_SECONDS)
            self._log = None  # the next reader opens the changed log
            self.index.forget_pipelines()
            self._clicked.add(impression, clicked)
            return True
