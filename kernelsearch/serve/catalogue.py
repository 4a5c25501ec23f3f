"""The indexes that a server has open, each with its judged topics, its click log and what its methods can do."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from kernelsearch import rerankers
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.errors import InputError, KernelSearchError
from kernelsearch.rerankers.base import Reranker
from kernelsearch.serve.recording import ClickRecorder
from kernelsearch.serve.settings import Settings, Source
from kernelsearch.serve.texts import Texts


class Served:
    """One opened index and all that requests may ask of it."""

    def __init__(self, source: Source, settings: Settings) -> None:
        self.name = source.name
        self.index = Index(source.path, language=settings.language)
        self.limits = settings.limits
        self.topics = load_topics(source.topics) if source.topics else {}
        self.qrels = load_qrels(source.qrels) if source.qrels else {}
        if self.topics and self.qrels and not self.topics.keys() & self.qrels.keys():
            raise InputError(f"{source.qrels}: judges none of the topics of {source.topics}")
        self.clicks = ClickRecorder(self.index, source.clicks, settings.record_clicks)
        self.texts = Texts(self.index)
        self._defaults = settings.methods
        self._similar: Any = None

    def warm_up(self) -> None:
        """Starts Java and opens the forward index, so that the first request doesn't wait for them."""
        query = self.index.query("warm up")
        self.index.lucene.search([query], 1)
        self.index.forward.docids.take([0] if len(self.index.forward) else [])

    def methods(self) -> list[dict[str, Any]]:
        """Which methods can work on this index now, and why the others can't."""
        found = []
        for name in rerankers.names():
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
        if self.clicks.given is not None and any(option.name == "clicks" for option in rerankers.method(name).options):
            given.setdefault("clicks", self.clicks.given)
        return given

    def similar_documents(self) -> Any:
        """The finder of similar documents, opened once."""
        if self._similar is None:
            from kernelsearch.similarity import SimilarDocuments

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
    from kernelsearch.serve.parameters import described, method_options

    found = []
    for name in rerankers.names():
        method = rerankers.method(name)
        found.append(
            {
                "name": name,
                "summary": method.summary,
                "retrieves": method.retrieves,
                "explains": method.explain is not Reranker.explain,
                "draws": method.plot is not Reranker.plot,
                "options": [described(option, name) for option in method_options(name)],
            }
        )
    return found
