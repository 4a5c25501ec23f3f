"""The indexes that a server has open, each with its judged topics, its click log and what its methods can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.errors import KernelSearchError
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Reranker
from kernelsearch.serve.parameters import described, method_options
from kernelsearch.serve.recording import ClickRecorder
from kernelsearch.serve.settings import Settings, Source
from kernelsearch.serve.texts import Texts
from kernelsearch.similarity import SimilarDocuments


class Served:
    """One opened index and all that requests may ask of it."""

    def __init__(self, source: Source, settings: Settings) -> None:
        self.name = source.name
        self.index = Index(source.path, language=settings.language, java_heap=settings.java_heap)
        self.limits = settings.limits
        self.topics, self.qrels = source.topics, source.qrels
        self.clicks = ClickRecorder(self.index, source.clicks, settings.record_clicks)
        self.texts = Texts(self.index)
        self._defaults = settings.methods
        self._similar: SimilarDocuments | None = None

    def warm_up(self) -> None:
        """Starts Java and opens the forward index, so that the first request doesn't wait for them."""
        query = self.index.query("warm up")
        self.index.lucene.search([query], 1)
        self.index.forward.docids.take([0] if len(self.index.forward) else [])

    def methods(self) -> list[dict[str, Any]]:
        """Which methods can work on this index now, and why the others can't."""
        found = []
        for name in registry.names():
            try:
                with self.using((name,)):
                    self.pipeline((name,), {}, {}, self.limits.candidates)
                why = None
            except KernelSearchError as problem:
                why = self.public(problem)
            found.append({"name": name, "ready": why is None, "why": why})
        return found

    def public(self, problem: KernelSearchError) -> str:
        """A complaint in one line that names the index as clients know it, not where it stands on this machine."""
        line = " ".join(str(problem).split())
        for place in (self.index.artefacts, self.index.path, self.index.name):
            line = line.replace(str(place), self.name)
        return line

    @contextmanager
    def using(self, methods: tuple[str, ...]) -> Iterator[None]:
        """Keeps the click log still while methods work; the first stage alone doesn't need it."""
        with self.clicks.reading() if methods else nullcontext():
            yield

    def pipeline(
        self, methods: tuple[str, ...], options: Mapping[str, Mapping[str, Any]], first: Mapping[str, Any], candidates: int
    ) -> Pipeline:
        """The pipeline of a list: the server's own options for its methods, and over them the request's."""
        chosen = {name: {**self._default(name), **options.get(name, {})} for name in methods}
        return self.index.pipeline(chosen, **{**first, "hits": candidates})

    def _default(self, name: str) -> dict[str, Any]:
        given = dict(self._defaults.get(name, {}))
        if self.clicks.given is not None and any(option.name == "clicks" for option in registry.method(name).options):
            given.setdefault("clicks", self.clicks.given)
        return given

    def similar_documents(self) -> SimilarDocuments:
        """The finder of similar documents, opened once."""
        if self._similar is None:
            self._similar = SimilarDocuments(self.index)
        return self._similar

    def about(self) -> dict[str, Any]:
        """What /v1/indexes says of it."""
        return {
            "name": self.name,
            "documents": len(self.index.forward.live_docs),
            "topics": len(self.topics),
            "judged": len(self.topics.keys() & self.qrels.keys()),
            "clicks": self.clicks.totals(),
            "recording": self.clicks.recording,
            "methods": self.methods(),
        }


def about_methods() -> list[dict[str, Any]]:
    """What /v1/methods says of each method."""
    found = []
    for name in registry.names():
        method = registry.method(name)
        reranker = method.load()
        found.append(
            {
                "name": name,
                "summary": method.summary,
                "retrieves": method.retrieves,
                "explains": reranker.explain is not Reranker.explain,
                "draws": reranker.plot is not Reranker.plot,
                "options": [described(option, name) for option in method_options(name)],
            }
        )
    return found
