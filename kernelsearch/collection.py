"""An opened index: Lucene for the first stage, forward indexes for everything after it, and a place for fitted artefacts."""

from __future__ import annotations

import os
import threading
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from kernelsearch.errors import ArtefactError, IndexProblem, InputError
from kernelsearch.forward import ForwardIndex
from kernelsearch.types import Query

if TYPE_CHECKING:
    from kernelsearch.lucene.index import LuceneIndex

CONTENTS = "contents"


class Index:
    """An index for reading. Java starts when something needs it, not before; forward indexes are memory-mapped on first use."""

    def __init__(self, path: str | Path, *, language: str | None = None) -> None:
        from kernelsearch.lucene.index import index_fingerprint

        self.path = Path(path)
        self.fingerprint = index_fingerprint(self.path)
        self._language = language
        self._forward: dict[str, ForwardIndex] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        return f"Index({str(self.path)!r})"

    @property
    def artefacts(self) -> Path:
        """The folder for everything that is derived from this index; KERNELSEARCH_ARTEFACTS moves it elsewhere."""
        from kernelsearch.lucene.index import OURS

        elsewhere = os.environ.get("KERNELSEARCH_ARTEFACTS")
        return Path(elsewhere) / self.fingerprint if elsewhere else self.path / OURS

    @cached_property
    def lucene(self) -> LuceneIndex:
        """The Lucene side: analysis, search, feedback, stored texts."""
        from kernelsearch.lucene.index import LuceneIndex

        with self._lock:
            return LuceneIndex(self.path, language=self._language)

    @property
    def forward(self) -> ForwardIndex:
        """The forward index of the main field."""
        return self.field(CONTENTS)

    def field(self, name: str) -> ForwardIndex:
        """The forward index of a field; built on first use where it is missing or belongs to an older state of the index."""
        with self._lock:
            if name not in self._forward:
                path = self.artefacts / "forward" / name
                try:
                    self._forward[name] = ForwardIndex(path, fingerprint=self.fingerprint)
                except ArtefactError:
                    if path.exists() and not _stale(path, self.fingerprint):
                        raise  # damaged: say so instead of papering over it
                    from kernelsearch.lucene.export import export

                    try:
                        export(self.lucene, name, path=path)
                    except InputError as problem:
                        raise IndexProblem(f"{problem}; KERNELSEARCH_ARTEFACTS names another place for it") from None
                    self._forward[name] = ForwardIndex(path, fingerprint=self.fingerprint)
            return self._forward[name]

    def query(self, text: str, qid: str = "") -> Query:
        """An analysed query."""
        return self.lucene.queries([text], [qid])[0]


def _stale(path: Path, fingerprint: str) -> bool:
    """Whether a forward index is whole but was made for an earlier state of the index."""
    from kernelsearch import artefacts
    from kernelsearch.forward.index import KIND, VERSION

    try:
        return artefacts.read_meta(path, KIND, VERSION)["fingerprint"] != fingerprint
    except ArtefactError:
        return False
