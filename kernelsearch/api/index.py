"""An opened index as users have it in Python: search, explain, evaluate, train, change its documents."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api import keywords
from kernelsearch.api.arguments import checked
from kernelsearch.api.explaining import explain_query
from kernelsearch.api.index_files import IndexFiles
from kernelsearch.api.judged import Judgements, Topics, as_qrels, as_topics, is_frame
from kernelsearch.api.readable import DocumentExplanation
from kernelsearch.api.results import Hit, Results, make_hits
from kernelsearch.core.errors import InputError, OptionError, quote
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.evaluation.measures import DEFAULT, need_subtopics, parse_measures
from kernelsearch.lucene.shards import find_shards
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.explanations import Explanation
from kernelsearch.trec.documents import id_text

if TYPE_CHECKING:
    from kernelsearch.api.evaluating import Measured
    from kernelsearch.api.staging import Reader
    from kernelsearch.api.tune import Tuned
    from kernelsearch.vectors.readers import VectorReader
    from kernelsearch.vectors.store import Stored

logger = logging.getLogger(__name__)


class Index(IndexFiles):
    """An index for reading, safe to use from several threads and to send to spawned processes (which open it again).

    >>> index = kernelsearch.open("indexes/demo")  # doctest: +SKIP
    >>> index.search("dripping tap", rerank="pert", k=5)  # doctest: +SKIP
    >>> index.explain("dripping tap", rerank="klsa")  # doctest: +SKIP

    Java starts when something needs it, not before; forward indexes are memory-mapped on first use. A folder of shards, or
    several indexes, are one collection (`kernelsearch.lucene.shards` has the rules).

    `path` is a folder, or several. `language` is that in which queries are analysed (default: the index's), `java_heap` the
    largest heap of Java, `artefacts` another folder for fitted state, `progress` what long steps report to. `vectors` says
    which vectors are used by methods that name none, and where query vectors come from: a name ("minilm"), or options by
    name ({"name": "minilm", "queries": "topics.npz"}; see `kernelsearch.vectors.settings`). With `few_calls`, for a process
    that searches a few times and ends, Java compiles with its quick compiler alone.

    What is opened of the index (`lucene`, `forward`, `vectors`, `pipeline`, ...) and the attributes are those of the base class
    `IndexFiles`.
    """

    @checked
    def search(self, text: str, rerank: keywords.Rerank = None, k: int = 10, **options: Any) -> Results:
        """The best `k` documents for the query `text`.

        `rerank` names a method ("klsa"), several in their order (["pert", "klsa"]) or methods with their options
        ({"klsa": {"dims": 300}}). Further options are the flags of `kernelsearch.search` as keywords: the first stage's
        (`hits=1000`, `k1=0.9`, `rm3=True`) and the methods' with their name before them (`klsa_dims=300` for --klsa.dims).
        """
        if k < 1:
            raise OptionError(f"k: {k} is below 1")
        pipeline = self.pipeline(rerank, **{"hits": max(k, 1000), **options})
        return pipeline.answer(text, k)

    @checked
    def search_batch(
        self,
        texts: Mapping[str, str] | Sequence[str] | Any,
        rerank: keywords.Rerank = None,
        k: int = 10,
        *,
        threads: int = 1,
        **options: Any,
    ) -> dict[str, Results]:
        """The best `k` documents for many queries, which are searched together, with `threads` threads.

        `texts` is {qid: text}, texts, whose numbers from 0 are their qids, or a data frame (qid, query). `rerank` and the other
        parameters are those of `search`. Returns {qid: results}.
        """
        if isinstance(texts, str):
            raise InputError(f"texts: a list of queries was expected, not one text ({quote(texts)}), which `search` takes")
        if k < 1:
            raise OptionError(f"k: {k} is below 1")
        has_qids = isinstance(texts, Mapping) or is_frame(texts)
        topics = as_topics(texts if has_qids else dict(enumerate(texts)))
        empty = next((qid for qid, text in topics.items() if not text.strip()), None)
        if empty is not None:
            raise InputError(f"query {empty} has no text")
        pipeline = self.pipeline(rerank, **{"hits": max(k, 1000), **options})
        queries = self.lucene.queries(list(topics.values()), list(topics))
        before = pipeline.retrieve(queries, threads=threads)
        after = pipeline.rerank(queries, before, threads=threads)
        methods = [reranker.name for reranker in pipeline.rerankers]
        lists = zip(queries, before, after, strict=True)
        return {query.qid: Results(self, query, methods, first, last.top(k)) for query, first, last in lists}

    @checked
    def explain(self, text: str, rerank: keywords.Rerank = None, docid: str | None = None, **options: Any) -> Explanation:
        """Why a document is ranked where it is for the query `text`: contributions that sum to its score.

        Without `rerank` the first stage's score is explained by term; of several methods the last one is, over the list of the
        others. `docid` is the document to explain; by default the best one. `options` are those of `search`.
        """
        pipeline = self.pipeline(rerank, **options)
        explained = explain_query(pipeline, text, docid)
        if explained.explanation is None:
            method, reason = explained.after.fallbacks[0]
            raise InputError(f"{method} keeps the first stage's list for {text!r}: {reason}")
        return DocumentExplanation(**vars(explained.explanation), index=self, query=text)

    @checked
    def evaluate(
        self,
        topics: Topics,
        qrels: Judgements,
        methods: Mapping[str, keywords.Rerank] | Sequence[str | None] = (None, "auto"),
        *,
        measures: Sequence[str] = DEFAULT,
        hits: int = 1000,
        threads: int = 1,
        **options: Any,
    ) -> Measured:
        """Measures methods on judged topics and compares them with the first one.

        Parameters
        ----------
        topics : {qid: text}, a file, or a data frame (qid, query); topics without judgements are left out
        qrels : {qid: {docid: grade}}, a file, or a data frame (qid, docno, label)
        methods : names of methods, None for the first stage; or {label: method}, with methods as `search` takes them
        measures : by their names in ir_measures or trec_eval
        hits : documents per topic
        threads : search threads
        options : those of `search`, for all methods
        """
        from kernelsearch.api.evaluating import evaluate_methods

        texts, judged = as_topics(topics), as_qrels(qrels, by_subtopic=need_subtopics(parse_measures(measures)))
        return evaluate_methods(self, texts, judged, methods, measures=measures, hits=hits, threads=threads, **options)

    @checked
    def tune(
        self,
        topics: Topics,
        qrels: Judgements,
        rerank: keywords.Rerank = None,
        tried: Mapping[str, Any] | None = None,
        *,
        measure: str = "AP",
        samples: int | None = None,
        folds: int = 5,
        seed: int = 0,
        processes: int = 1,
        output: str | Path | None = None,
        results: str | Path | None = None,
        **options: Any,
    ) -> Tuned:
        """Tries settings of a pipeline on judged topics and chooses among them by cross-validation over the topics.

        Parameters
        ----------
        topics : {qid: text}, a file, or a data frame (qid, query); topics without judgements are left out
        qrels : {qid: {docid: grade}}, a file, or a data frame (qid, docno, label)
        rerank : the methods, as in `search`
        tried : {parameter: values}, such as {"k1": [0.9, 1.2], "klsa_z": [1, 5], "b": "0.1..0.9"}; a text is what the option
            --try takes, and ranges are drawn from with `samples`. Default: a small grid of the method
        measure : the measure to maximise
        samples : number of random settings to try instead of the whole grid
        folds, seed : number and seed of the folds
        processes : processes that try settings
        output : config file for the best setting, with results and fitted state beside it; a tuning that was killed continues
            from them. Required where parameters of training are tried
        results : file of results; default: OUTPUT.results.jsonl
        options : options of the pipeline that stay fixed, as in `search`

        Raises InputError where no topic is judged, OptionError for an unknown parameter or value.
        """
        from kernelsearch.api.tune import tune_pipeline
        from kernelsearch.tuning.space import default_grid

        spec = keywords.read_keywords(rerank, options)
        return tune_pipeline(
            self,
            spec,
            as_topics(topics),
            as_qrels(qrels),
            {keywords.split(name): values for name, values in (tried or default_grid(spec.names)).items()},
            measure=measure,
            samples=samples,
            folds=folds,
            seed=seed,
            processes=processes,
            output=None if output is None else Path(output),
            results=None if results is None else Path(results),
        )

    @checked
    def similar(self, docid: str, k: int = 10, **options: Any) -> list[Hit]:
        """The `k` documents most similar to `docid`; options are those of `kernelsearch.similarity.SimilarDocuments`."""
        from kernelsearch.similarity import SimilarDocuments

        if k < 1:
            raise OptionError(f"k: {k} is below 1")
        finder = checked(SimilarDocuments)(self, **options)
        ranked = finder.ranked(self.row(docid))
        return make_hits(self, ranked.top(k))

    @checked
    def train(
        self,
        method: str,
        *,
        topics: Topics | None = None,
        qrels: Judgements | None = None,
        clicks: str | Path | None = None,
        output: str | Path | None = None,
        memory_limit: str | None = None,
        **options: Any,
    ) -> Path:
        """Fits what a method needs and returns the folder where it is kept: beside the index, or in `output`.

        `topics` and `qrels` are those of `evaluate`, `clicks` is a click log's file, each where the method learns from it.
        `memory_limit`, such as "4G", bounds the memory of building. `options` are the method's own
        (`dims=300`, or `klsa_dims=300` as in `search`, for --klsa.dims).
        """
        options = {name.removeprefix(f"{method}_"): value for name, value in options.items()}
        data = TrainingData(
            {} if topics is None else as_topics(topics),
            {} if qrels is None else as_qrels(qrels),
            Path(clicks) if clicks is not None else None,
            Path(output) if output is not None else None,
            memory_limit=MemoryLimit.parse(memory_limit),
            progress=self.progress,
        )
        saved = registry.method(method).fit(self, data, **options)
        self.forget_pipelines()
        return saved

    @checked
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
        `kernelsearch.index`. This object keeps its documents and refuses to search from now on. Raises
        InputError for documents without id or text.
        """
        from kernelsearch.api.python_documents import reader_of

        return self._updated(reader_of(documents, join_titles), (), threads, memory_limit)

    @checked
    def delete(self, ids: Iterable[str], *, memory_limit: str | None = None) -> Index:
        """Deletes the documents `ids` and returns the index without them, opened; this object refuses to search from now on.

        Ids that are numbers become text, as in `add`. `memory_limit` is that of `kernelsearch.index`. Ids that the index
        doesn't have are logged. Raises InputError where it has none of them, or no others.
        """
        wanted = [ids] if isinstance(ids, str) else list(ids)
        return self._updated(None, [id_text(docid, "ids") for docid in wanted], 0, memory_limit)

    def _updated(self, read: Reader | None, ids: Sequence[str], threads: int, memory_limit: str | None) -> Index:
        from kernelsearch.api.updating import update_index

        if len(self.shards.folders) > 1:
            raise OptionError(f"{len(self.shards.folders)} indexes; open the one to change", path=self.name)
        self.refuse_replaced()
        chosen = self.shards.chosen_artefacts
        if chosen is not None and chosen.absolute() == find_shards(self.path).artefacts.absolute():
            chosen = None  # the index's own place, as in an index that came from another process
        updated = update_index(
            self.path,
            read,
            ids,
            threads=threads,
            memory_limit=memory_limit,
            deleting="ids",
            artefacts=chosen,
            progress=self.progress,
        )
        logger.info("%s: %s", self.name, updated)
        self._superseded = True
        return Index(
            self.path,
            language=self.language,
            java_heap=self.java_heap,
            artefacts=chosen,
            progress=self.progress,
            vectors=self.vector_settings,
        )

    @checked
    def add_vectors(
        self,
        name: str,
        vectors: str | Path | NDArray[np.floating] | None = None,
        ids: Sequence[str] | str | Path | None = None,
        *,
        encoder: str | None = None,
        **options: Any,
    ) -> Stored:
        """Adds vectors of the documents under `name`; older ones of that name are replaced.

        Parameters
        ----------
        vectors : an array (documents, dimensions), or a file as `kernelsearch.vectors` takes it; None: `encoder` makes them
        ids : docids of the rows of an array; for a .npy file, the file of its ids
        encoder : encoder of the queries and, without `vectors`, of the documents: a folder with an ONNX model,
            "sentence-transformers:NAME" or "pyserini:NAME"
        options : those of `kernelsearch.vectors`, such as `dtype="float32"` or `normalise=True`

        Returns how many vectors were stored, how many documents have none, and which ids the index doesn't have. Raises
        InputError for vectors that can't be used.
        """
        from kernelsearch.api.adding_vectors import AddVectorsSettings, add_vectors
        from kernelsearch.encoders import open_encoder
        from kernelsearch.vectors.readers import ArrayReader, open_vectors

        settings = AddVectorsSettings.of(options)
        source: VectorReader | None = None
        if isinstance(vectors, str | Path):
            if ids is not None and not isinstance(ids, str | Path):
                raise OptionError("ids: a file of vectors needs a file of ids, or has ids of its own")
            source = open_vectors(vectors, ids)
        elif vectors is not None:
            if ids is None or isinstance(ids, str | Path):
                raise OptionError("ids: an array of vectors needs the docids of its rows")
            source = ArrayReader(ids, vectors)
        self.refuse_replaced()
        with self.one_state():
            opened = open_encoder(encoder) if encoder is not None else None
            stored = add_vectors(self, name, source, opened, settings, self.progress)
        self.forget_vectors(name)
        self.forget_pipelines()
        return stored
