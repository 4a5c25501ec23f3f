"""The base class of rerankers, and what they are passed: an opened index, a context, training data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.artefacts import refuse_foreign
from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.core.execution import Engine, LocalEngine
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import Settings
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.lucene.models import BM25Model, Model
from kernelsearch.lucene.shards import Shards
from kernelsearch.rerankers.explanations import Contribution, Explanation
from kernelsearch.rerankers.registry import Method

if TYPE_CHECKING:
    from kernelsearch.vectors.opened import Vectors
    from kernelsearch.vectors.settings import VectorSettings

__all__ = [  # what a method imports, `Contribution` and `Explanation` included
    "DEFAULT_CONTEXT",
    "CannotAct",
    "Context",
    "Contribution",
    "Explanation",
    "OpenedIndex",
    "Part",
    "Reranker",
    "TrainingData",
    "position",
]

S = TypeVar("S", bound=Settings)
T = TypeVar("T")


class OpenedIndex(Protocol):
    """What a method needs of an opened index: Lucene, forward indexes, and the folder for what is derived from it.

    `name` is its name in messages, `fingerprint` identifies its contents and binds artefacts to them, `shards` are its Lucene
    indexes, `progress` is what long steps report to, `vector_settings` says which vectors were chosen when it was opened.
    It can be pickled and opened again in another process.
    """

    name: str
    fingerprint: str
    shards: Shards
    progress: Progress
    vector_settings: VectorSettings

    @property
    def artefacts(self) -> Path:
        """The folder for what is derived from this index: fitted state, click logs."""

    @property
    def lucene(self) -> LuceneIndex:
        """The Lucene index: analysis, search, feedback, stored texts."""

    @property
    def forward(self) -> ForwardIndex:
        """The forward index of the main field."""

    def field(self, name: str) -> ForwardIndex:
        """The forward index of a field."""

    def vectors(self, name: str | None = None) -> Vectors:
        """The vectors of that name; without a name those that were chosen when the index was opened, or the only ones."""

    def opened(self, open_file: Callable[..., T], path: Path, *arguments: Any) -> T:
        """`open_file(path, *arguments)`, shared by all that use it at the same time; opened again where the file changed."""

    def row(self, docid: str, option: str = "docid") -> int:
        """The row of a docid; raises an error that names `option` where the index doesn't have it."""


@dataclass(frozen=True)
class Context:
    """What the pipeline passes to its rerankers.

    `model` is the ranking model of the first stage, `hits` the number of documents per query that it was asked for (None:
    unknown), `threads` the number of threads that a method may search with.
    """

    model: Model = field(default_factory=BM25Model)
    hits: int | None = None
    threads: int = 1


#: The context of candidates that come from BM25 with default parameters, for calls outside a pipeline.
DEFAULT_CONTEXT = Context()


class CannotAct(Exception):
    """Raised by a method that can't act on a query: the list stays as it is, and the reason is counted and reported."""


@dataclass(frozen=True)
class TrainingData:
    """What a method is trained on and how; what the user doesn't name stays empty."""

    topics: dict[str, str] = field(default_factory=dict)  #: {qid: text}
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)  #: {qid: {docid: grade}}
    clicks: Path | None = None  #: a click log
    output: Path | None = None  #: the folder to save to; None: the method's own beside the index
    memory_limit: MemoryLimit | None = None  #: a bound on the memory of training
    engine: Engine = field(default_factory=LocalEngine)  #: runs the tasks of training
    progress: Progress = silent  #: what long steps report to

    def folder(self, index: OpenedIndex, name: str) -> Path:
        """Returns the folder to save an artefact in: `output`, or the folder `name` among the artefacts of `index`.

        Raises InputError, before the work, where it holds something else.
        """
        path = self.output or index.artefacts / name
        refuse_foreign(path)
        return path


class Part(NamedTuple):
    """A part of a method that an index may lack: its name, and why it is not in use; None where it is."""

    name: str
    missing: str | None


class Reranker(ABC, Generic[S]):
    """Base class of all methods.

    A method implements `score`. The base class sorts and breaks ties by docid, so that the list keeps its documents;
    where the method raises CannotAct, the list stays as it is. A method that adds documents declares `retrieves` and overrides
    `apply_batch`. `index` is the opened index, `options` are the options of the method's declaration, by name.

    Parameters of the methods: `query` (or `queries`), the analysed query; `candidates` (or `lists`), its list, best first;
    `context`, what the pipeline passes to its rerankers; `docs` and `doc`, rows of the forward index; `path`, the file to
    write; `data` and `settings`, what to train on and the options of train.
    """

    method: ClassVar[Method]
    settings: S
    parts: tuple[Part, ...] = ()

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        self.index = index
        self.settings = self.method.settings.of(options)  # type: ignore[assignment]

    @property
    def name(self) -> str:
        """The method's name."""
        return self.method.name

    @property
    def parts_in_use(self) -> str | None:
        """One line with the parts that are in use, and those that are not, with the reason; None for a method without parts."""
        if not self.parts:
            return None
        used = [part.name for part in self.parts if part.missing is None]
        missing = [f"{part.name} ({part.missing})" for part in self.parts if part.missing is not None]
        line = f"{self.name}: in use: {', '.join(used) or 'none of its parts'}"
        return f"{line}; not in use: {', '.join(missing)}" if missing else line

    @property
    def in_one_process(self) -> bool:
        """Whether all queries of a run must pass this object, because it keeps or prints something of each."""
        return False

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: Any) -> Path:
        """Fits what the method needs, saves it as an artefact and returns its folder.

        `settings` is an instance of the method's `fit_settings`. Raises OptionError for methods that need no training.
        """
        raise OptionError("needs no training", option=Flag("rerank", value=cls.method.name))

    @abstractmethod
    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """One finite score per candidate, in their order, shape (candidates,). Raises CannotAct where the method can't act."""

    def scoring_query(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Query | None:
        """The query whose first-stage scores of the candidates are those of `score`; None for a method without such a query.

        The parameters are those of `score`. Raises CannotAct as `score` does.
        """
        return None

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """Why the document in row `doc` got its score. Raises OptionError for methods that explain nothing."""
        raise OptionError("has no explanation to give", option=Flag("rerank", value=self.name))

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Draws the method's picture of a query and the document in row `doc` into a PNG or SVG file.

        Without `doc` the method chooses one or draws the query alone. Raises OptionError for methods without a picture.
        """
        raise OptionError("has no picture to draw", option=Flag("rerank", value=self.name))

    def apply(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> Candidates:
        """The reranked list of one query, best first."""
        return self.apply_batch([query], [candidates], context)[0]

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists of many queries. Methods that can share work between queries override this."""
        return [self.rescore(query, candidates, context) for query, candidates in zip(queries, lists, strict=True)]

    def rescore(self, query: Query, candidates: Candidates, context: Context) -> Candidates:
        """The candidates in the order of `score`, or as they are where the method can't act on the query.

        Raises InputError where `score` doesn't return one finite number per candidate.
        """
        if not candidates.depth:
            return candidates
        try:
            scores = np.asarray(self.score(query, candidates, context))
        except CannotAct as reason:
            return self.keep(candidates, reason)
        if scores.shape != candidates.docs.shape or not np.isfinite(scores).all():
            raise InputError(
                f"{self.name}: query {query.qid or query.text!r} got scores that are not one finite number per document"
            )
        return self.ordered(candidates.docs, scores)

    def keep(self, candidates: Candidates, reason: CannotAct) -> Candidates:
        """The list as it is, with the reason why the method could not act on it."""
        return Candidates(candidates.docs, candidates.scores, ((self.name, str(reason)),))

    @classmethod
    def variants(
        cls,
        rerankers: Sequence[Reranker[S]],
        queries: Sequence[Query],
        lists: Sequence[Candidates],
        context: Context = DEFAULT_CONTEXT,
    ) -> list[list[Candidates]]:
        """The lists of several rerankers of this method that differ in their settings, as `lists[reranker][query]`.

        Tuning calls this. Methods that can share work between settings override it; the lists equal those of `apply_batch`.
        """
        return [reranker.apply_batch(queries, lists, context) for reranker in rerankers]

    def ordered(self, docs: NDArray[np.int32], scores: NDArray[np.floating]) -> Candidates:
        """Rows and their scores as a list in the order of `best_first`."""
        order = self.best_first(docs, scores)
        return Candidates(docs[order], scores[order])

    def best_first(self, docs: NDArray[np.int32], scores: NDArray[np.floating]) -> NDArray[np.int64]:
        """The places of `docs`, by score descending, then docid ascending, shape (documents,).

        Raises InputError for a score that is not finite.
        """
        order = np.argsort(-scores)
        ranked = scores[order]
        if len(ranked) and not (np.isfinite(ranked[0]) and np.isfinite(ranked[-1])):  # sorting puts NaN last
            raise InputError(f"{self.name}: a document got the score {ranked[-1 if np.isfinite(ranked[0]) else 0]}")
        if (ranked[1:] == ranked[:-1]).any():  # sorting by two keys takes several times as long, and ties are rare
            order = np.lexsort((self.index.forward.docid_rank[docs], -scores))
        return order

    def place_of(self, candidates: Candidates, doc: int) -> int:
        """As `position`; raises InputError where the list doesn't have the document."""
        place = position(candidates, doc)
        if place is None:
            docid = self.index.forward.docids[doc]
            raise InputError(
                f"{docid} is not among the {candidates.depth} candidates that {self.name} ranks", option=Flag("docid")
            )
        return place


def position(candidates: Candidates, doc: int) -> int | None:
    """The place (from 0) of the document in row `doc` in the list `candidates`; None where the list doesn't have it."""
    places = np.flatnonzero(candidates.docs == doc)
    return int(places[0]) if len(places) else None
