"""The click log of a served index: suggestions from it, and clicks added to it while it is read.

A list that is shown and clicked is one impression. Further clicks on the same list are counted as clicks alone, so that the log
doesn't show it twice; the page's random number of a list tells them. Nothing else about a person or a machine is kept.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.records import Impression, Record, Tally, normalise_query
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import InputError
from kernelsearch.rerankers.rbm25.similar_queries import open_log

#: Lists whose clicks are remembered, so that a click on one of them is counted once.
REMEMBERED = 10_000


class ClickRecorder:
    """One index's click log. Readers share it; a click waits for them, is written, and they see the new log."""

    def __init__(self, index: Any, given: str | None, recording: bool) -> None:
        self.index, self.given, self.recording = index, given, recording
        self.path = Path(given) if given is not None else index.artefacts / "clicks.db"
        self._seen: OrderedDict[str, set[str]] = OrderedDict()
        self._turn = threading.Condition()
        self._readers = 0
        self._writing = False
        self._log: ClickLog | None = None
        if recording and self.path.exists():
            ClickLog(self.path)  # a table of text can't be added to: say so now
        elif given is not None:
            self._log = open_log(index, given)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Holds off writers: what a method derived from the log must fit what it reads from it."""
        with self._turn:
            self._turn.wait_for(lambda: not self._writing)
            self._readers += 1
        try:
            yield
        finally:
            with self._turn:
                self._readers -= 1
                self._turn.notify_all()

    @contextmanager
    def _alone(self) -> Iterator[None]:
        with self._turn:
            self._turn.wait_for(lambda: not self._writing)
            self._writing = True
            self._turn.wait_for(lambda: not self._readers)
        try:
            yield
        finally:
            with self._turn:
                self._writing = False
                self._turn.notify_all()

    def log(self) -> ClickLog | None:
        """The log for reading, None where there is none yet."""
        if self._log is None and self.path.is_file():
            self._log = ClickLog(self.path)
        return self._log

    def suggestions(self, prefix: str, limit: int) -> list[dict[str, Any]]:
        """Logged queries that begin with a text, most clicked first."""
        with self.reading():
            log = self.log()
            found = log.beginning_with(prefix, limit) if log is not None else []
        return [{"query": text, "clicks": clicks, "impressions": shown} for text, shown, clicks in found]

    def totals(self) -> dict[str, int] | None:
        """How large the log is."""
        with self.reading():
            log = self.log()
            return None if log is None else log.counts()

    def record(self, impression: str, query: str, docids: Sequence[str], clicked: str | None) -> bool:
        """Adds a shown list and the click on it; False for a click that is known already."""
        with self._alone():
            seen = self._seen.get(impression)
            if seen is not None and (clicked is None or clicked in seen):
                return False
            new: Record
            if seen is None:
                places = tuple(range(1, len(docids) + 1))
                new = Impression(normalise_query(query), tuple(docids), places, tuple(docid == clicked for docid in docids))
            elif clicked not in docids:
                raise InputError(f"clicked: {clicked!r} is not among the docids")
            else:
                new = Tally(normalise_query(query), str(clicked), 1, 0, docids.index(str(clicked)) + 1)
            import_records([new], self.path, append=True, name="the click")
            self._log = None  # opened again by the next reader, at its new state
            self.index.forget_pipelines()
            self._seen.setdefault(impression, set()).update([clicked] if clicked is not None else [])
            self._seen.move_to_end(impression)
            if len(self._seen) > REMEMBERED:
                self._seen.popitem(last=False)
            return True
