"""What every reranker is: a name, declared options, scores for candidates, reasons for a score."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.options import Option, resolve
from kernelsearch.core.types import Candidates, Query
from kernelsearch.engines import Engine, LocalEngine
from kernelsearch.lucene.models import BM25, Model


class CannotAct(Exception):
    """Raised by a method that can't act on a query; the first stage's list is kept, and the reason is counted."""


@dataclass(frozen=True)
class Contribution:
    """One reason for a score. The values of a level sum to the value above them."""

    label: str
    value: float
    detail: str = ""
    parts: tuple[Contribution, ...] = ()


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a document got its score: contributions that sum to it, and what else is worth showing, as plain data."""

    method: str
    docid: str
    score: float
    contributions: tuple[Contribution, ...]
    notes: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The explanation as indented text."""
        out = [f"{self.method}: {self.docid} scores {self.score:.4f}"]

        def walk(parts: Sequence[Contribution], depth: int) -> None:
            for part in parts:
                tail = f"  ({part.detail})" if part.detail else ""
                out.append(f"{'  ' * depth}{part.value:+.4f}  {part.label}{tail}")
                walk(part.parts, depth + 1)

        walk(self.contributions, 1)
        return out

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """The explanation as nested lists, for notebooks."""

        def items(parts: Sequence[Contribution]) -> str:
            return "".join(
                f"<li><code>{part.value:+.4f}</code> {escape(part.label)}"
                + (f" <small>{escape(part.detail)}</small>" if part.detail else "")
                + (f"<ul>{items(part.parts)}</ul>" if part.parts else "")
                + "</li>"
                for part in parts
            )

        title = f"{escape(self.method)}: {escape(self.docid)} scores {self.score:.4f}"
        return f"<p><b>{title}</b></p><ul>{items(self.contributions)}</ul>"

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain data for JSON."""

        def plain(part: Contribution) -> dict[str, Any]:
            return {"label": part.label, "value": part.value, "detail": part.detail, "parts": [plain(p) for p in part.parts]}

        return {
            "method": self.method,
            "docid": self.docid,
            "score": self.score,
            "contributions": [plain(part) for part in self.contributions],
            "notes": self.notes,
        }


@dataclass(frozen=True)
class TrainingData:
    """What `kernelsearch.train` was given, each part only where the user named it."""

    topics: dict[str, str] = field(default_factory=dict)
    qrels: dict[str, dict[str, int]] = field(default_factory=dict)
    clicks: Path | None = None
    output: Path | None = None
    ltr: Path | None = None  #: a LETOR file of features, instead of an index
    ltr_test: Path | None = None
    memory_limit: MemoryLimit | None = None  #: a bound on the memory of building
    engine: Engine = field(default_factory=LocalEngine)  #: where work in parts is done


class Reranker(ABC):
    """Base of all methods.

    A method implements `score`; the base sorts, breaks ties by docid, keeps the list's documents exactly, and falls back to
    the first stage where the method raises CannotAct. A method that brings documents of its own sets `retrieves` and
    overrides `apply`. `first_stage` is the ranking model that the candidates came from; a pipeline sets it.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    options: ClassVar[tuple[Option, ...]] = ()
    fit_options: ClassVar[tuple[Option, ...]] = ()
    #: The option that names the folder of what `fit` saves, for methods that can be fitted to the index alone.
    fitted_option: ClassVar[str | None] = None
    retrieves: ClassVar[bool] = False

    def __init__(self, index: Index, **options: Any) -> None:
        self.index = index
        self.settings = resolve(self.options, options, self.name)
        self.first_stage: Model = BM25()
        self.hits: int | None = None  #: documents a query that the first stage was asked for, where a pipeline knows
        self.threads = 1  #: for methods that search again
        self.kept: Counter[str] = Counter()  #: reasons why queries kept the first stage's list
        self._latest = threading.local()

    @classmethod
    def fit(cls, index: Index, data: TrainingData, **options: Any) -> Path:
        """Learns or decomposes what the method needs, saves it as an artefact and returns its folder."""
        raise OptionError(f"--rerank {cls.name}: needs no training")

    @classmethod
    def fit_features(cls, data: TrainingData, **options: Any) -> Path:
        """Learns from a file of features, without an index."""
        raise OptionError(f"--ltr: --rerank {cls.name} doesn't learn from a file of features")

    @abstractmethod
    def score(self, query: Query, candidates: Candidates) -> NDArray[np.floating]:
        """One finite score a candidate, in their order."""

    def explain(self, query: Query, candidates: Candidates, doc: int) -> Explanation:
        """Why the document in row `doc` (one of the candidates) got its score."""
        raise OptionError(f"--rerank {self.name}: has no explanation to give")

    def plot(self, query: Query, candidates: Candidates, doc: int | None, path: Path) -> None:
        """Draws the method's picture of a query (and a document) into a PNG or SVG file."""
        raise OptionError(f"--rerank {self.name}: has no picture to draw")

    def apply(self, query: Query, candidates: Candidates) -> Candidates:
        """The reranked list, best first."""
        if not candidates.depth:
            return candidates
        try:
            scores = np.asarray(self.score(query, candidates))
        except CannotAct as reason:
            self.keep(reason)
            return candidates
        if scores.shape != candidates.docs.shape or not np.isfinite(scores).all():
            raise InputError(
                f"{self.name}: query {query.qid or query.text!r} got scores that are not one finite number a document"
            )
        return self.ordered(candidates.docs, scores)

    def keep(self, reason: CannotAct) -> None:
        """Counts a query that keeps the first stage's list."""
        self.kept[str(reason)] += 1
        self._latest.reason = str(reason)

    def take_reason(self) -> str | None:
        """Why a query of this thread kept the first stage's list since this was last asked; None where none did."""
        reason, self._latest.reason = getattr(self._latest, "reason", None), None
        return reason

    def apply_batch(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[Candidates]:
        """Reranks many queries. Methods that can share work between queries override this."""
        return [self.apply(query, candidates) for query, candidates in zip(queries, lists, strict=True)]

    @classmethod
    def variants(
        cls, rerankers: Sequence[Reranker], queries: Sequence[Query], lists: Sequence[Candidates]
    ) -> list[list[Candidates]]:
        """The lists of several rerankers of this method that differ in their settings, [reranker][query].

        Tuning calls this. Methods that can share work between settings override it; the lists must be those of `apply_batch`.
        """
        return [reranker.apply_batch(queries, lists) for reranker in rerankers]

    def ordered(self, docs: NDArray[np.int32], scores: NDArray[np.floating]) -> Candidates:
        """Sorted by score descending, then docid ascending."""
        order = np.argsort(-scores)
        ranked = scores[order]
        if (ranked[1:] == ranked[:-1]).any():  # sorting by two keys takes several times as long, and ties are rare
            order = np.lexsort((self.index.forward.docid_rank[docs], -scores))
        return Candidates(docs[order], scores[order])
