"""The options of search: its own, and those of `pyserini.search.lucene` that it takes with the same meaning."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.core.options import Settings, option
from kernelsearch.engines import EngineSettings


@dataclass(frozen=True, kw_only=True)
class PyseriniSettings(Settings):
    """Flags of `pyserini.search.lucene`, with the same meaning."""

    fields: tuple[str, ...] | None = option(None, "search these fields, each with a weight: title=2 contents=1", words=True)
    dismax: bool = option(False, "with --fields: a document's best field counts, not the sum")
    dismax_tiebreaker: float = option(0.0, "with --dismax: weight of the other fields", low=0, high=1, name="dismax.tiebreaker")
    bm25qs: bool = option(False, "BM25 on the query's side too")
    anserini_scores: bool = option(
        False, "round the first stage's scores as Anserini does: four digits, ties a millionth apart"
    )
    stopwords: str | None = option(None, "a file of stop words for English queries, one a line")
    pretokenized: bool = option(False, "topics are tokens of the index already, separated by blanks")
    tokenizer: str | None = option(None, "cut topics with this tokenizer of Hugging Face first (needs transformers)")
    max_passage: bool = option(False, "docids are DOCUMENT#PASSAGE: keep each document's best passage")
    max_passage_hits: int = option(100, "with --max-passage: documents a query", low=1)
    max_passage_delimiter: str = option("#", "with --max-passage: what stands between document and passage")
    remove_duplicates: bool = option(False, "of entries with the same docid, keep the first")


@dataclass(frozen=True, kw_only=True)
class SearchSettings(PyseriniSettings, EngineSettings):
    """Options of search."""

    config: str | None = option(None, "a TOML file with options, as written beside run files; flags override it")
    index: str | tuple[str, ...] | None = option(
        None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True
    )
    topics: str | None = option(
        None, "a file of topics (TSV, TREC, JSONL, CACM; gzipped or not), irds:NAME, or Pyserini's name"
    )
    topics_format: str | None = option(None, "how to read it; guessed if not given", choices=("tsv", "trec", "jsonl", "cacm"))
    topics_field: str = option("title", "parts of a TREC topic: title, description, narrative, joined with +")
    shard: str | None = option(
        None, "only the I-th of N parts of the topics, as I/N from 1 on; kernelsearch.merge joins the runs"
    )
    query: str | None = option(None, "one query, printed as a table")
    run: str | None = option(None, "rerank this run file instead of searching")
    output: str | None = option(None, "the run file to write")
    output_format: str = option("trec", "its form", choices=("trec", "msmarco"))
    tag: str | None = option(None, "the run's tag; default: the methods' names")
    threads: int = option(1, "search threads", low=1)
    batch_size: int = option(64, "queries a batch", low=1)
    remove_query: bool = option(False, "leave out the document whose id is the query's")
    language: str | None = option(None, "analyse queries in this language; default: the index's own")
    java_heap: str | None = option(None, "Java's heap, such as 4g")


#: What a config file may say at its top level: what makes a difference to the run, not where it was computed.
IN_CONFIG = tuple(
    declared for declared in SearchSettings.options if declared.name != "config" and declared not in EngineSettings.options
)
