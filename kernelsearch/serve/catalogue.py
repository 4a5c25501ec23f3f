"""A served index: the opened index with its topics, judgements, click log, stored documents and methods."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.spec import PipelineSpec, Values
from kernelsearch.clicks.records import normalise_query
from kernelsearch.core.errors import Flag, KernelSearchError, OptionError, quote
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import Reranker
from kernelsearch.serve.impressions import Impressions
from kernelsearch.serve.openapi import describe_option
from kernelsearch.serve.parameters import method_options
from kernelsearch.serve.recording import ClickRecorder
from kernelsearch.serve.settings import IndexSpec, ServiceSettings
from kernelsearch.serve.texts import StoredDocuments
from kernelsearch.similarity import SimilarDocuments
from kernelsearch.vectors.store import names as vector_names

#: Queries of the warm-up, and their words. Java compiles what it executes often: the first ten queries take longer than
#: those that follow.
SAMPLES, SAMPLE_WORDS = 12, 5
#: The methods that answer all of these queries; others answer one.
FREQUENT = ("auto",)
#: Documents whose texts are read for each of these queries.
SHOWN = 10
logger = logging.getLogger("kernelsearch.serve")


class Retired(Exception):
    """A newer state of the index is served; the request is to be computed with that one."""


class ServedIndex:
    """One opened index and everything that answers to requests need of it.

    Attributes: `name`, in URLs; `index`; `limits`; `topics`, {qid: text}; `qrels`, {qid: {docid: grade}}; `clicks`, the click
    log; `texts`, the stored documents.

    Made from `spec`, what the command line says about the index, the service's `settings` and the `impressions` that sign its
    lists.
    """

    def __init__(self, spec: IndexSpec, settings: ServiceSettings, impressions: Impressions) -> None:
        self.name = spec.name
        # Absolute paths: messages of the index contain them, and `make_public` knows them.
        self.index = Index(
            Path(spec.path).absolute(),
            language=settings.language,
            java_heap=settings.java_heap,
            vectors=spec.vectors.absolute(),
        )
        self.limits = settings.limits
        self.topics, self.qrels = spec.topics, spec.qrels
        self._topics_by_text = {normalise_query(text): qid for qid, text in reversed(spec.topics.items())}
        log_file = str(Path(spec.clicks).absolute()) if spec.clicks is not None else None
        self.clicks = ClickRecorder(self.index, log_file, settings.record_clicks, impressions.clicked)
        self.texts = StoredDocuments(self.index)
        self._defaults = _defaults(settings.methods, self.clicks.log_file)
        self._similar: SimilarDocuments | None = None
        self._impressions = impressions
        self._lock = threading.Lock()
        self._users = 0
        self._retired = False

    @contextmanager
    def in_use(self) -> Iterator[None]:
        """Keeps this state open while a request uses it; raises Retired where a newer state is served already."""
        with self._lock:
            if self._retired:
                raise Retired
            self._users += 1
        try:
            yield
        finally:
            with self._lock:
                self._users -= 1
                last = self._retired and not self._users
            if last:
                self._close()

    def retire(self) -> None:
        """Closes this state when its last request is done: a newer one is served."""
        with self._lock:
            self._retired = True
            unused = not self._users
        if unused:
            self._close()

    @property
    def closed(self) -> bool:
        """Whether a newer state is served and no request uses this one any more."""
        return self._retired and not self._users

    def _close(self) -> None:
        self.index.lucene.close()
        self.index.forget_pipelines()  # they and the index refer to each other, and so keep its files mapped

    def topic_of(self, text: str, topic: str | None = None) -> str:
        """The id of the topic with this `text`, whatever its case and blanks; "" if there is none.

        Vectors and runs are given by topic id. `topic` is the one that a request names: it counts if this is its text.
        """
        normalised = normalise_query(text)
        if topic is not None and normalise_query(self.topics[topic]) == normalised:
            return topic
        return self._topics_by_text.get(normalised, "")

    def sign(self, query: str, docids: Sequence[str]) -> dict[str, str]:
        """The fields for recording clicks on the list `docids` of `query`; none for an empty list, or without a click log."""
        if not self.clicks.recording or not docids:
            return {}
        return {"impression": self._impressions.issue(self.name, query, docids)}

    def warm_up(self) -> None:
        """Does once what the first requests would have to wait for.

        Starts Java, opens the forward index and every method that is ready, and answers queries one by one with each of them:
        methods compute what all queries share when they answer the first one.
        """
        queries = [self.index.query(text) for text in self._sample_texts()]
        for query in queries:
            self.texts.get(self.index.lucene.search([query], self.limits.candidates)[0].docs[:SHOWN])
        for state in self.describe()["methods"]:
            name = state["name"]
            if not state["ready"]:
                continue
            try:
                with self.reading_clicks((name,)):
                    for query in queries if name in FREQUENT else queries[:1]:
                        self.pipeline((name,), {}, self.limits.candidates).search([query])
            except KernelSearchError as problem:  # its requests are answered with the same message
                logger.info("%s: %s cannot answer: %s", self.name, name, self.public_message(problem))

    def _sample_texts(self) -> list[str]:
        """A few words of each of some documents, so that queries for them find something."""
        forward = self.index.forward
        filled = np.flatnonzero(forward.live & (forward.lengths > 0))
        if not len(filled):
            return ["nothing"]
        texts = []
        for row in filled[_spread(len(filled), SAMPLES)]:
            _, places = forward.gather(np.array([row]))
            terms = forward.indices[places]
            texts.append(" ".join(forward.terms.take(terms[_spread(len(terms), SAMPLE_WORDS)])))
        return texts

    def methods(self) -> list[dict[str, Any]]:
        """Which methods are ready on this index, and what the others lack."""
        states = []
        for name in registry.names():
            why, parts = None, []
            try:
                with self.reading_clicks((name,)):
                    (reranker,) = self.pipeline((name,), {}, self.limits.candidates).rerankers
                for part, missing in reranker.parts:
                    reason = None if missing is None else self.public_text(missing)
                    parts.append({"name": part, "in_use": missing is None, "why": reason})
            except KernelSearchError as problem:
                why = self.public_message(problem)
            states.append({"name": name, "ready": why is None, "why": why, "parts": parts})
        return states

    def make_public(self, problem: KernelSearchError) -> None:
        """Changes the error `problem` so that it tells clients nothing about the folders of this machine.

        The index has its name instead of its folder, and other files have only the last part of their path.
        """
        folders = (self.index.shards.artefacts, self.index.path)

        def change(path: str | Path) -> str | Path:
            inside = next((Path(path).relative_to(folder) for folder in folders if Path(path).is_relative_to(folder)), None)
            return Path(path).name if inside is None else self.name / inside

        problem.change_parts(change, self.public_text)

    def public_text(self, text: str) -> str:
        """A text, such as a command, with the name of the index for its folder."""
        for folder in (self.index.shards.artefacts, self.index.path):
            text = text.replace(str(folder), self.name)
        return text

    def public_message(self, problem: KernelSearchError) -> str:
        """The message of the error `problem` for clients, in one line."""
        self.make_public(problem)
        return " ".join(problem.message(Flag.in_request).split())

    @contextmanager
    def reading_clicks(self, methods: tuple[str, ...]) -> Iterator[None]:
        """Holds the click log's read lock while methods run; the first stage alone does not need it."""
        with self.clicks.reading() if methods else nullcontext():
            yield

    def spec(self, methods: Sequence[str], values: Values, candidates: int) -> PipelineSpec:
        """The pipeline of a request.

        `methods` are the names of the rerankers, `values` the checked options of the request, which override those of the
        server. The first stage retrieves `candidates` documents.
        """
        self._check_names(values)
        return self._defaults.change(methods, {**values, "": {**values.get("", {}), "hits": candidates}})

    def pipeline(self, methods: Sequence[str], values: Values, candidates: int) -> Pipeline:
        """The pipeline of a request; the parameters are those of `spec`."""
        return self.spec(methods, values, candidates).open(self.index)

    def _check_names(self, values: Values) -> None:
        """Raises OptionError for a name of vectors that the index does not have, before anything takes it for a path."""
        for method, given in values.items():
            for option in registry.method(method).options if method else ():
                value = given.get(option.key)
                if option.names != "vectors" or value is None:
                    continue
                known = [*vector_names(self.index.artefacts), *(option.requests if isinstance(option.requests, tuple) else ())]
                for name in value if isinstance(value, tuple) else (value,):
                    if name not in known:
                        listed = ", ".join(known) or "none: the index has no vectors"
                        raise OptionError(f"{quote(name)} is not one of {listed}", option=Flag(option.name, method))

    def similar_documents(self) -> SimilarDocuments:
        """The finder of similar documents, opened on first use."""
        if self._similar is None:
            self._similar = SimilarDocuments(self.index)
        return self._similar

    def describe(self) -> dict[str, Any]:
        """The index's entry in /v1/indexes."""
        try:
            clicks = self.clicks.totals()
        except KernelSearchError as problem:  # requests that need the log are answered with this message; others go on
            logger.info("%s: %s", self.name, problem)
            clicks = None
        return {
            "name": self.name,
            "documents": len(self.index.forward.live_docs),
            "topics": len(self.topics),
            "judged": len(self.topics.keys() & self.qrels.keys()),
            "clicks": clicks,
            "recording": self.clicks.recording,
            "methods": self.methods(),
        }


def _defaults(methods: Mapping[str, Mapping[str, Any]], log_file: str | None) -> PipelineSpec:
    """All methods with the options of the server: `methods`, {name: {option: value}}, and the file of the click log."""
    values = {name: dict(options) for name, options in methods.items()}
    for name, method in registry.methods().items():
        for option in method.options if log_file is not None else ():
            if option.names == "clicks":
                values.setdefault(name, {}).setdefault(option.key, log_file)
    return PipelineSpec.of(registry.names(), [((name, key), value) for name in values for key, value in values[name].items()])


def _spread(length: int, count: int) -> NDArray[np.int64]:
    """At most `count` of the numbers below `length`, evenly spread."""
    return np.linspace(0, length - 1, min(count, length)).astype(np.int64)


def describe_methods() -> list[dict[str, Any]]:
    """The methods' entries in /v1/methods."""
    entries = []
    for name in registry.names():
        method = registry.method(name)
        reranker = method.load()
        entries.append(
            {
                "name": name,
                "summary": method.summary,
                "retrieves": method.retrieves,
                "explains": reranker.explain is not Reranker.explain,
                "draws": reranker.plot is not Reranker.plot,
                "options": [describe_option(option, name) for option in method_options(name)],
            }
        )
    return entries
