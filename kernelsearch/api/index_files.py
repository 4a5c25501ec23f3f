"""The files of an index, opened on first use: Lucene, forward indexes, vectors, and the folder of fitted artefacts."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kernelsearch.api.export import export
from kernelsearch.core import artefacts as saved_artefacts
from kernelsearch.core.errors import ArtefactError, IndexProblem, IndexReplaced, InputError
from kernelsearch.core.progress import Progress
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex, check_field
from kernelsearch.forward.index import KIND, VERSION
from kernelsearch.kernels.feedback import FeedbackExpander
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.lucene.shards import Shards, present_state
from kernelsearch.vectors.settings import VectorSettings

if TYPE_CHECKING:
    from kernelsearch.vectors.opened import Vectors

CONTENTS = "contents"


class IndexFiles:
    """What methods read of an index (`kernelsearch.rerankers.base.OpenedIndex`), all of one state of the index.

    Java starts when something needs it, not before; forward indexes are memory-mapped on first use. The base class of
    `kernelsearch.api.index.Index`, whose parameters the attributes come from.
    """

    shards: Shards  #: the Lucene indexes, and where artefacts are
    name: str  #: what messages call the index
    fingerprint: str  #: identifies the state of the index; artefacts are bound to it
    language: str | None  #: in which queries are analysed; None: the index's
    java_heap: str | None
    progress: Progress
    vector_settings: VectorSettings

    def __init__(self) -> None:
        self._lucene: LuceneIndex | None = None
        self._forward: dict[str, ForwardIndex] = {}
        self._expander: FeedbackExpander | None = None
        self._vectors: dict[str, Vectors] = {}
        self._lock = threading.RLock()

    def __repr__(self) -> str:
        written = self.shards.artefacts / "forward"
        fields = sorted(folder.name for folder in written.iterdir() if folder.is_dir()) if written.is_dir() else []
        if CONTENTS not in fields or _stale(written / CONTENTS, self.fingerprint):
            return f"Index({self.name!r})"
        return f"Index({self.name!r}: {len(self.forward.live_docs)} documents, fields {', '.join(fields)})"

    def row(self, docid: str, option: str = "docid", among: Candidates | None = None) -> int:
        """A document's row; a docid that the index, or the list `among`, doesn't have is refused with the option's name."""
        row = int(self.forward.require_rows([docid], label=option, collection=self.name)[0])
        if among is not None and not np.any(among.docs == row):
            raise InputError(f"{option}: {docid!r} is not among the {among.depth} documents of this query's list")
        return row

    @property
    def artefacts(self) -> Path:
        """The folder for everything that is derived from this index; KERNELSEARCH_ARTEFACTS moves it elsewhere.

        Raises IndexReplaced where the index has been replaced or changed since it was opened: the folder then belongs to
        another state, which nothing of this one may be read from or written into.
        """
        self.refuse_replaced()
        return self.shards.artefacts

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Raises IndexReplaced where the index is replaced while files are read: they may be of two states, or look damaged."""
        before = self.replaced()  # then `artefacts` refuses, and what needs no files goes on with the old state
        try:
            yield
        except (ArtefactError, IndexProblem):
            self.refuse_replaced()
            raise
        # Where the folder is missing, nothing could be read of another state.
        if not before and present_state(self.shards.folders) not in (self.fingerprint, None):
            raise self._replacement()

    def refuse_replaced(self) -> None:
        """Raises IndexReplaced where the index has been replaced or changed since it was opened."""
        if self.replaced():
            raise self._replacement()

    def _replacement(self) -> IndexReplaced:
        return IndexReplaced(f"{self.name}: the index has been replaced since it was opened; open it again")

    def replaced(self) -> bool:
        """Whether the index's folder is missing or holds another state than the one that was opened."""
        return present_state(self.shards.folders) != self.fingerprint

    @property
    def lucene(self) -> LuceneIndex:
        """The Lucene side: analysis, search, feedback, stored texts."""
        if self._lucene is None:
            with self._lock:
                if self._lucene is None:
                    self._lucene = self._open_lucene()
        return self._lucene

    def _open_lucene(self) -> LuceneIndex:
        self.refuse_replaced()
        try:
            return LuceneIndex(self.shards, language=self.language, java_heap=self.java_heap)
        except IndexProblem:
            self.refuse_replaced()
            raise

    @property
    def forward(self) -> ForwardIndex:
        """The forward index of the main field."""
        return self.field(CONTENTS)

    def field(self, name: str) -> ForwardIndex:
        """The forward index of the field `name`, written on first use where it is missing or of an older state of the index."""
        opened_field = self._forward.get(name)
        if opened_field is not None:  # without the checks below, which every feature would repeat
            return opened_field
        check_field(name)
        with self._lock:
            if name not in self._forward:
                with self.one_state():
                    opened = self._open_field(name)
                self._forward[name] = opened
            return self._forward[name]

    def _open_field(self, name: str) -> ForwardIndex:
        path = self.artefacts / "forward" / name
        try:
            return ForwardIndex(path, fingerprint=self.fingerprint)
        except ArtefactError:
            if path.exists() and not _stale(path, self.fingerprint):
                raise  # damaged: reported, not silently replaced
            try:
                export(self.lucene, name, path=path, progress=self.progress)
            except InputError as problem:
                raise IndexProblem(f"{problem}; KERNELSEARCH_ARTEFACTS names another place for it") from None
            return ForwardIndex(path, fingerprint=self.fingerprint)

    @property
    def expander(self) -> FeedbackExpander | None:
        """Feedback on the forward index; None where Anserini's own gives the same sooner.

        That is on an index that stores document vectors and has no forward index yet: writing one takes longer than a search.
        """
        with self._lock:
            if self._expander is None:
                path = self.artefacts / "forward" / CONTENTS
                written = CONTENTS in self._forward or (path.is_dir() and not _stale(path, self.fingerprint))
                if not written and self.lucene.field_statistics().vectors:
                    return None
                self._expander = FeedbackExpander(self.forward)
            return self._expander

    def vectors(self, name: str | None = None) -> Vectors:
        """The vectors of that name, with a source of query vectors; without a name the chosen ones, or the only ones.

        Raises:
            ArtefactError: the index has no such vectors, or has changed since they were made.
            OptionError: no name where there are several.
        """
        # Imported here: FAISS's neighbours and scipy behind it are for those who have vectors.
        from kernelsearch.vectors.opened import Vectors
        from kernelsearch.vectors.queries import QueryVectors
        from kernelsearch.vectors.store import open_documents

        name = name or self.vector_settings.default_name
        with self._lock:
            if name is None or name not in self._vectors:
                with self.one_state():
                    documents = open_documents(
                        self.artefacts, name, fingerprint=self.fingerprint, index=self.name, flags=self.shards.flags
                    )
                name = documents.name
                if name not in self._vectors:
                    file, encoder = self.vector_settings.queries_of(name), self.vector_settings.encoder
                    self._vectors[name] = Vectors(documents, QueryVectors(documents, file=file, encoder=encoder))
            return self._vectors[name]

    def forget_vectors(self, name: str) -> None:
        """Closes the vectors `name`, which were replaced; they are opened again on their next use."""
        with self._lock:
            self._vectors.pop(name, None)

    def query(self, text: str, qid: str = "") -> Query:
        """The query `text`, analysed; `qid` is its id in results and messages."""
        return self.lucene.queries([text], [qid])[0]


def _stale(path: Path, fingerprint: str) -> bool:
    """Whether a forward index is whole but was made for an earlier state of the index."""
    try:
        return str(saved_artefacts.read_meta(path, KIND, VERSION)["fingerprint"]) != fingerprint
    except ArtefactError:
        return False
