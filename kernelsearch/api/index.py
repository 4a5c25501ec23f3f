"""An opened index: Lucene for the first stage, forward indexes for everything after it, and a place for fitted artefacts."""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kernelsearch.api import keywords
from kernelsearch.api.explaining import explain_first_stage
from kernelsearch.api.export import export
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.api.results import Hit, Results, make_hits
from kernelsearch.core import artefacts as saved_artefacts
from kernelsearch.core.errors import ArtefactError, IndexProblem, IndexReplaced, InputError, OptionError, quote
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import ForwardIndex
from kernelsearch.forward.index import KIND, VERSION
from kernelsearch.kernels.feedback import FeedbackExpander
from kernelsearch.lucene import jvm
from kernelsearch.lucene.first_stage import FirstStage
from kernelsearch.lucene.index import LuceneIndex
from kernelsearch.lucene.shards import Source, find_shards, present_state
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import CannotAct, Explanation, TrainingData
from kernelsearch.vectors.settings import VectorSettings

if TYPE_CHECKING:
    from kernelsearch.api.evaluating import Measured
    from kernelsearch.api.staging import Reader
    from kernelsearch.vectors.opened import Vectors

logger = logging.getLogger(__name__)

CONTENTS = "contents"
#: Pipelines that an index keeps ready, so that the same search again loads nothing.
KEPT_PIPELINES = 16


class Index:
    """An index for reading, safe to use from several threads and to send to spawned processes (which open it again).

    >>> index = kernelsearch.open("indexes/demo")  # doctest: +SKIP
    >>> index.search("dripping tap", rerank="pert", k=5)  # doctest: +SKIP
    >>> index.explain("dripping tap", rerank="klsa")  # doctest: +SKIP

    Java starts when something needs it, not before; forward indexes are memory-mapped on first use. A folder of shards, or
    several indexes, are one collection (`kernelsearch.lucene.shards` tells the rules).

    `vectors` says which vectors methods use that name none, and where query vectors come from: a name ("minilm"), or options by
    name ({"name": "minilm", "queries": "topics.npz"}; see `kernelsearch.vectors.settings`).

    Attributes: `shards`, the Lucene indexes; `path`, the (first) folder that was named; `name`, what messages call it;
    `fingerprint`, which artefacts are bound to.
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
    ) -> None:
        jvm.check_heap(java_heap)
        self.shards = find_shards(path, artefacts)
        self.path: Path = self.shards.home
        self.name: str = self.shards.name
        self.fingerprint: str = self.shards.fingerprint
        self.language = language
        self.java_heap = java_heap
        self.progress = progress
        self.vector_settings = _vector_settings(vectors)
        self._lucene: LuceneIndex | None = None
        self._forward: dict[str, ForwardIndex] = {}
        self._expander: FeedbackExpander | None = None
        self._vectors: dict[str, Vectors] = {}
        self._pipelines: OrderedDict[str, Pipeline] = OrderedDict()
        self._lock = threading.RLock()
        self._building = threading.RLock()
        self._superseded = False

    def __repr__(self) -> str:
        stands = self.shards.artefacts / "forward"
        fields = sorted(folder.name for folder in stands.iterdir() if folder.is_dir()) if stands.is_dir() else []
        if CONTENTS not in fields or _stale(stands / CONTENTS, self.fingerprint):
            return f"Index({self.name!r})"
        return f"Index({self.name!r}: {len(self.forward.live_docs)} documents, fields {', '.join(fields)})"

    def __reduce__(self) -> tuple[Any, ...]:
        # Another process may work in another folder.
        given = tuple(path.absolute() for path in self.shards.folders)
        return _reopen, (
            given,
            self.language,
            self.java_heap,
            self.shards.artefacts.absolute(),
            self.vector_settings.absolute(),
        )

    def search(self, text: str, rerank: keywords.Rerank = None, k: int = 10, **options: Any) -> Results:
        """The best `k` documents for a query.

        `rerank` names a method ("klsa"), several in their order (["pert", "klsa"]) or methods with their options
        ({"klsa": {"dims": 300}}). Further options are the flags of `kernelsearch.search` as keywords: the first stage's
        (`hits=1000`, `k1=0.9`, `rm3=True`) and the methods' with their name before them (`klsa_dims=300` for --klsa.dims).
        """
        if k < 1:
            raise OptionError(f"k: {k} is below 1")
        pipeline = self.pipeline(rerank, **{"hits": max(k, 1000), **options})
        query, before, after = self._run(pipeline, text)
        return Results(self, query, [method.name for method in pipeline.rerankers], before, after.top(k))

    def search_batch(
        self,
        texts: Mapping[str, str] | Sequence[str],
        rerank: keywords.Rerank = None,
        k: int = 10,
        *,
        threads: int = 1,
        **options: Any,
    ) -> dict[str, Results]:
        """The best `k` documents for many queries, which are searched together, with `threads` threads.

        `texts` is {qid: text}, or texts, whose numbers from 0 are their qids. The other parameters are those of `search`.
        Returns {qid: results}.
        """
        if k < 1:
            raise OptionError(f"k: {k} is below 1")
        topics = dict(texts) if isinstance(texts, Mapping) else {str(number): text for number, text in enumerate(texts)}
        empty = next((qid for qid, text in topics.items() if not text.strip()), None)
        if empty is not None:
            raise InputError(f"query {empty} has no text")
        pipeline = self.pipeline(rerank, **{"hits": max(k, 1000), **options})
        queries = self.lucene.queries(list(topics.values()), list(topics))
        before = pipeline.retrieve(queries, threads=threads)
        after = pipeline.rerank(queries, before, threads=threads)
        methods = [method.name for method in pipeline.rerankers]
        lists = zip(queries, before, after, strict=True)
        return {query.qid: Results(self, query, methods, first, last.top(k)) for query, first, last in lists}

    def explain(self, text: str, rerank: keywords.Rerank = None, docid: str | None = None, **options: Any) -> Explanation:
        """Why a document is ranked where it is: contributions that sum to its score.

        `rerank` names one method; without it the first stage's score is explained by term.

        `docid` is the document to explain; by default the best one. Options are those of `search`.
        """
        pipeline = self.pipeline(rerank, **options)
        if len(pipeline.rerankers) > 1:
            raise OptionError(f"rerank: one method can be explained at a time, not {len(pipeline.rerankers)}")
        query, before, after = self._run(pipeline, text)
        if not after.depth:
            raise InputError(f"no document matches {text!r}")
        row = int(after.docs[0]) if docid is None else self.row(docid, among=after)
        if not pipeline.rerankers:
            return explain_first_stage(pipeline, query, row)
        method = pipeline.rerankers[0]
        try:
            return method.explain(query, before, row, pipeline.context())
        except CannotAct as reason:
            raise InputError(f"{method.name} keeps the first stage's list for {text!r}: {reason}") from None

    def evaluate(
        self,
        topics: Mapping[str, str],
        qrels: Mapping[str, Mapping[str, int]],
        methods: Mapping[str, keywords.Rerank] | Sequence[str | None] = (None, "auto"),
        *,
        measures: Sequence[str] = ("AP", "nDCG@10"),
        hits: int = 1000,
        threads: int = 1,
        **options: Any,
    ) -> Measured:
        """Measures methods on judged topics and compares them with the first one.

        Parameters
        ----------
        topics : {qid: text}; topics without judgements are left out
        qrels : {qid: {docid: grade}}
        methods : names of methods, None for the first stage; or {label: method}, with methods as `search` takes them
        measures : by their names in ir_measures or trec_eval
        hits : documents per topic
        threads : search threads
        options : those of `search`, for all methods
        """
        from kernelsearch.api.evaluating import evaluate_methods

        return evaluate_methods(self, topics, qrels, methods, measures=measures, hits=hits, threads=threads, **options)

    def similar(self, docid: str, k: int = 10, **options: Any) -> list[Hit]:
        """The `k` documents most similar to a document; options are those of `kernelsearch.similarity.SimilarDocuments`."""
        from kernelsearch.similarity import SimilarDocuments

        if k < 1:
            raise OptionError(f"k: {k} is below 1")
        finder = SimilarDocuments(self, **options)
        found = finder.ranked(self.row(docid))
        return make_hits(self, found.top(k))

    def train(
        self,
        method: str,
        *,
        topics: dict[str, str] | None = None,
        qrels: dict[str, dict[str, int]] | None = None,
        clicks: str | Path | None = None,
        output: str | Path | None = None,
        memory_limit: str | None = None,
        **options: Any,
    ) -> Path:
        """Fits what a method needs and returns the folder where it is kept: beside the index, or in `output`.

        `topics` is {qid: text}, `qrels` {qid: {docid: grade}}, `clicks` a click log's file, each where the method learns from
        it. `memory_limit`, such as "4G", bounds the memory of building. Options are the method's own (`dims=300` for
        --klsa.dims).
        """
        data = TrainingData(
            topics or {},
            qrels or {},
            Path(clicks) if clicks is not None else None,
            Path(output) if output is not None else None,
            memory_limit=MemoryLimit.parse(memory_limit),
            progress=self.progress,
        )
        saved = registry.method(method).fit(self, data, **options)
        self.forget_pipelines()
        return saved

    def add(
        self,
        documents: Iterable[Mapping[str, Any]] | Any,
        *,
        join_titles: bool = True,
        threads: int = 0,
        memory_limit: str | None = None,
    ) -> Index:
        """Adds documents, which replace those of the same id, and returns the index that has them, opened.

        `documents` and `join_titles` are those of `kernelsearch.build`, `threads` and `memory_limit` those of
        `kernelsearch.index`. This object stays with the documents of before and refuses to search from now on. Raises
        InputError for documents without id or text.
        """
        from kernelsearch.api.building import reader_of

        return self._updated(reader_of(documents, join_titles), (), threads, memory_limit)

    def delete(self, ids: Iterable[str], *, memory_limit: str | None = None) -> Index:
        """Deletes documents and returns the index without them, opened; this object refuses to search from now on.

        Ids that the index doesn't have are logged. Raises InputError where it has none of them, or no others.
        """
        return self._updated(None, (ids,) if isinstance(ids, str) else tuple(ids), 0, memory_limit)

    def _updated(self, read: Reader | None, ids: Sequence[str], threads: int, memory_limit: str | None) -> Index:
        from kernelsearch.api.updating import update_index

        if len(self.shards.folders) > 1:
            raise OptionError(f"{self.name}: {len(self.shards.folders)} indexes; open the one to change")
        self._refuse_replaced()
        updated = update_index(
            self.path, read, ids, threads=threads, memory_limit=memory_limit, deleting="ids", progress=self.progress
        )
        logger.info("%s: %s", self.name, updated)
        self._superseded = True
        return Index(
            self.path,
            language=self.language,
            java_heap=self.java_heap,
            artefacts=self.shards.chosen_artefacts,
            progress=self.progress,
            vectors=self.vector_settings,
        )

    def forget_pipelines(self) -> None:
        """Drops the pipelines that are kept ready: they hold what was fitted, or logged, before."""
        with self._building, self._lock:
            self._pipelines.clear()

    def pipeline(self, rerank: keywords.Rerank = None, **options: Any) -> Pipeline:
        """The first stage and the methods that the options of `search` describe, ready for many queries."""
        if self._superseded:
            raise IndexReplaced(f"{self.name}: its documents were changed; search the index that add() or delete() returned")
        methods, first = keywords.split(rerank, options)
        key = repr((methods, first))
        if (ready := self._ready(key)) is not None:
            return ready
        # A lock of its own: while a pipeline loads or derives what it needs, searches with the others go on.
        with self._building:
            if (ready := self._ready(key)) is not None:
                return ready
            with self._one_state():
                made = Pipeline(self, FirstStage.from_settings(first), methods)
            with self._lock:
                self._pipelines[key] = made
                if len(self._pipelines) > KEPT_PIPELINES:
                    self._pipelines.popitem(last=False)
            return made

    def _ready(self, key: str) -> Pipeline | None:
        with self._lock:
            if key in self._pipelines:
                self._pipelines.move_to_end(key)
            return self._pipelines.get(key)

    def _run(self, pipeline: Pipeline, text: str) -> tuple[Query, Candidates, Candidates]:
        """A query with its list before and after the rerankers."""
        if not text.strip():
            raise InputError("the query has no text")
        query = self.query(text)
        before = pipeline.retrieve([query])[0]
        return query, before, pipeline.rerank([query], [before])[0]

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
        self._refuse_replaced()
        return self.shards.artefacts

    @contextmanager
    def _one_state(self) -> Iterator[None]:
        """Raises IndexReplaced where the index is replaced while files are read: they may be of two states, or look damaged."""
        before = self.replaced()  # then `artefacts` refuses, and what needs no files goes on with the old state
        try:
            yield
        except (ArtefactError, IndexProblem):
            self._refuse_replaced()
            raise
        # Where the folder is missing, nothing could be read of another state.
        if not before and present_state(self.shards.folders) is not None:
            self._refuse_replaced()

    def _refuse_replaced(self) -> None:
        if self.replaced():
            raise IndexReplaced(f"{self.name}: the index has been replaced since it was opened; open it again")

    def replaced(self) -> bool:
        """Whether the index's folder is missing or holds another state than the one that was opened."""
        return present_state(self.shards.folders) != self.fingerprint

    @property
    def lucene(self) -> LuceneIndex:
        """The Lucene side: analysis, search, feedback, stored texts."""
        if self._lucene is None:
            with self._lock:
                if self._lucene is None:
                    self._refuse_replaced()
                    with self._one_state():
                        opened = LuceneIndex(self.shards.folders, language=self.language, java_heap=self.java_heap)
                    self._lucene = opened
        return self._lucene

    @property
    def forward(self) -> ForwardIndex:
        """The forward index of the main field."""
        return self.field(CONTENTS)

    def field(self, name: str) -> ForwardIndex:
        """The forward index of a field; built on first use where it is missing or belongs to an older state of the index."""
        if Path(name).name != name or name in ("", ".."):
            raise OptionError(f"{quote(name)} is not the name of a field")
        with self._lock:
            if name not in self._forward:
                with self._one_state():
                    opened = self._open_field(name)
                self._forward[name] = opened
            return self._forward[name]

    def _open_field(self, name: str) -> ForwardIndex:
        path = self.artefacts / "forward" / name
        try:
            return ForwardIndex(path, fingerprint=self.fingerprint)
        except ArtefactError:
            if path.exists() and not _stale(path, self.fingerprint):
                raise  # damaged: say so instead of papering over it
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

        name = name or self.vector_settings.name
        with self._lock:
            if name is None or name not in self._vectors:
                with self._one_state():
                    documents = open_documents(
                        self.artefacts, name, fingerprint=self.fingerprint, index=self.name, flags=self.shards.flags
                    )
                name = documents.name
                if name not in self._vectors:
                    file, encoder = self.vector_settings.queries_of(name), self.vector_settings.encoder
                    self._vectors[name] = Vectors(documents, QueryVectors(documents, file=file, encoder=encoder))
            return self._vectors[name]

    def query(self, text: str, qid: str = "") -> Query:
        """An analysed query."""
        return self.lucene.queries([text], [qid])[0]


def _reopen(
    given: tuple[Path, ...], language: str | None, java_heap: str | None, artefacts: Path, vectors: VectorSettings
) -> Index:
    return Index(given, language=language, java_heap=java_heap, artefacts=artefacts, vectors=vectors)


def _vector_settings(value: VectorSettings | Mapping[str, Any] | str | None) -> VectorSettings:
    """Settings of vectors from a name or from options by name."""
    if isinstance(value, VectorSettings):
        return value
    return VectorSettings.of({"name": value} if isinstance(value, str) else value or {})


def _stale(path: Path, fingerprint: str) -> bool:
    """Whether a forward index is whole but was made for an earlier state of the index."""
    try:
        return str(saved_artefacts.read_meta(path, KIND, VERSION)["fingerprint"]) != fingerprint
    except ArtefactError:
        return False
