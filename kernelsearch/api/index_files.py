"""What is opened of an index, on first use: Lucene, forward indexes, vectors, pipelines, and the folder of fitted artefacts."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from kernelsearch.api import keywords
from kernelsearch.api.export import export
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.spec import PipelineSpec
from kernelsearch.core import artefacts as saved_artefacts
from kernelsearch.core.errors import ArtefactError, Flag, IndexProblem, IndexReplaced, InputError, quote
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.replacing import remove_leftovers_below
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex, check_field
from kernelsearch.forward.format import KIND, VERSION
from kernelsearch.kernels.feedback import FeedbackExpander
from kernelsearch.lucene import jvm
from kernelsearch.lucene.index import CONTENTS, LuceneIndex
from kernelsearch.lucene.shards import Source, find_shards, present_state
from kernelsearch.vectors.settings import VectorSettings

if TYPE_CHECKING:
    from kernelsearch.vectors.opened import Vectors

T = TypeVar("T")
#: Pipelines that an index keeps ready, so that the same search again loads nothing.
MAX_PIPELINES = 16


class IndexFiles:
    """What methods read of an index (`kernelsearch.rerankers.base.OpenedIndex`), all of one state of it, and its pipelines.

    Java starts when something needs it, not before; forward indexes are memory-mapped on first use. The base class of
    `kernelsearch.api.index.Index`, which describes the parameters.

    Attributes: `shards`, the Lucene indexes, and where artefacts are; `path`, the (first) folder that was named; `name`, what
    messages call the index; `fingerprint`, which identifies its state and which artefacts are bound to; `language`,
    `java_heap`, `progress` and `vector_settings` as given.
    """

    def __init__(
        self,
        path: Source,
        *,
        language: str | None = None,
        java_heap: str | None = None,
        artefacts: str | Path | None = None,
        progress: Progress = silent,
        vectors: VectorSettings | Mapping[str, Any] | str | None = None,
        few_calls: bool = False,
    ) -> None:
        jvm.check_heap(java_heap)
        if few_calls:
            jvm.expect_few_calls()
        self.shards = find_shards(path, artefacts)
        remove_leftovers_below(self.shards.artefacts)  # brings artefacts back where a process was killed while it replaced them
        if language is None:
            _ = self.shards.language  # a damaged record, or shards of several languages, are refused before any work
        self.path: Path = self.shards.home
        self.name = self.shards.name
        self.fingerprint = self.shards.fingerprint
        self.language = language
        self.java_heap = java_heap
        self.progress = progress
        self.vector_settings = _vector_settings(vectors)
        self._lucene: LuceneIndex | None = None
        self._forward: dict[str, ForwardIndex] = {}
        self._expander: FeedbackExpander | None = None
        self._vectors: dict[str, Vectors] = {}
        self._pipelines: OrderedDict[PipelineSpec, Pipeline] = OrderedDict()
        self._opened: WeakValueDictionary[tuple[Any, ...], Any] = WeakValueDictionary()
        self._lock = threading.RLock()
        self._building = threading.RLock()  # held while a pipeline loads what it needs
        self._opening = threading.RLock()  # held while an artefact is opened
        self._superseded = False  # whether this object's documents were changed

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process may work in another folder.
        folders = tuple(path.absolute() for path in self.shards.folders)
        return _reopen, (
            type(self),
            folders,
            self.language,
            self.java_heap,
            self.shards.artefacts.absolute(),
            self.vector_settings.absolute(),
        )

    def __repr__(self) -> str:
        written = self.shards.artefacts / "forward"
        fields = sorted(folder.name for folder in written.iterdir() if folder.is_dir()) if written.is_dir() else []
        if CONTENTS not in fields or _stale(written / CONTENTS, self.fingerprint):
            return f"Index({self.name!r})"
        return f"Index({self.name!r}: {len(self.forward.live_docs)} documents, fields {', '.join(fields)})"

    def row(self, docid: str, option: str = "docid", among: Candidates | None = None) -> int:
        """The row of a docid; raises an error that names `option` where the index, or the list `among`, doesn't have it."""
        row = int(self.forward.require_rows([docid], label=Flag(option), collection=self.name)[0])
        if among is not None and not np.any(among.docs == row):
            raise InputError(f"{docid!r} is not among the {among.depth} documents of this query's list", option=Flag(option))
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
        except (ArtefactError, IndexProblem, OSError):
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
        return IndexReplaced("the index has been replaced since it was opened; open it again", path=self.name)

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
        try:  # LuceneIndex refuses files of another state than that of `shards`
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
                raise IndexProblem(problem, "; KERNELSEARCH_ARTEFACTS names another place for it") from None
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

        Raises ArtefactError where the index has no such vectors, or has changed since they were made; OptionError without a
        name where there are several.
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

    def pipeline(self, rerank: keywords.Rerank = None, **options: Any) -> Pipeline:
        """The first stage and the methods that `rerank` and the options of `search` describe, ready for many queries."""
        return self.open_pipeline(keywords.read_keywords(rerank, options))

    def open_pipeline(self, spec: PipelineSpec) -> Pipeline:
        """The pipeline that `spec` describes. The last pipelines with methods are kept ready.

        All users of an index get their pipelines here: what is fitted, logged or changed drops them for all.
        """
        if self._superseded:
            raise IndexReplaced("its documents were changed; search the index that add() or delete() returned", path=self.name)
        if not spec.methods:
            return Pipeline(self, spec.first_stage)
        if (ready := self._ready(spec)) is not None:
            return ready
        # A lock of its own: while a pipeline loads or derives what it needs, searches with the others go on.
        with self._building:
            if (ready := self._ready(spec)) is not None:
                return ready
            with self.one_state():
                made = Pipeline(self, spec.first_stage, spec.options())
            with self._lock:
                self._pipelines[spec] = made
                if len(self._pipelines) > MAX_PIPELINES:
                    self._pipelines.popitem(last=False)
            return made

    def _ready(self, spec: PipelineSpec) -> Pipeline | None:
        with self._lock:
            if spec in self._pipelines:
                self._pipelines.move_to_end(spec)
            return self._pipelines.get(spec)

    def forget_pipelines(self) -> None:
        """Drops the pipelines that are kept ready: they hold what was fitted, or logged, before."""
        with self._building, self._lock:
            self._pipelines.clear()

    def opened(self, open_file: Callable[..., T], path: Path, *arguments: Any) -> T:
        """`open_file(path, *arguments)`, which is opened once for all that use it at the same time, and again once it changed.

        `path` is a file, or the folder of an artefact; `open_file` is a class or function that can be a key. Nothing is kept
        that no pipeline uses, so that its maps and descriptors are freed with the last one.
        """
        file = path / "meta.json" if path.is_dir() else path
        status = file.stat() if file.exists() else None  # where it is missing, `open_file` says so
        state = None if status is None else (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        key = open_file, path.absolute(), arguments, state
        with self._opening:
            opened: T | None = self._opened.get(key)
            if opened is None:
                opened = self._opened[key] = open_file(path, *arguments)
            return opened


def _stale(path: Path, fingerprint: str) -> bool:
    """Whether a forward index is whole but was made for an earlier state of the index."""
    try:
        return str(saved_artefacts.read_meta(path, KIND, VERSION)["fingerprint"]) != fingerprint
    except ArtefactError:
        return False


def _vector_settings(value: VectorSettings | Mapping[str, Any] | str | None) -> VectorSettings:
    """Settings of vectors from a name or from options by name."""
    if isinstance(value, VectorSettings):
        return value
    if value is not None and not isinstance(value, str | Mapping):
        raise InputError(f"a name, or options by name, was expected, not {quote(value)}", option=Flag("vectors"))
    return VectorSettings.of({"name": value} if isinstance(value, str) else value or {})


def _reopen(
    kind: type[IndexFiles],
    folders: tuple[Path, ...],
    language: str | None,
    java_heap: str | None,
    artefacts: Path,
    vectors: VectorSettings,
) -> IndexFiles:
    return kind(folders, language=language, java_heap=java_heap, artefacts=artefacts, vectors=vectors)
