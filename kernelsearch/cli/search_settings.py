"""The options of search: its own, and those of `pyserini.search.lucene` that it takes with the same meaning."""

from __future__ import annotations

from dataclasses import dataclass

from kernelsearch.cli.settings import TOPIC_FORMATS, QuerySettings
from kernelsearch.core.options import Settings, option
from kernelsearch.engines import EngineSettings


@dataclass(frozen=True, kw_only=True)
class PyseriniSettings(Settings):
    """Flags of `pyserini.search.lucene`, with the same meaning."""

    fields: tuple[str, ...] | None = option(
        None, "fields to search, each with a weight, such as title=2 contents=1", words=True
    )
    dismax: bool = option(False, "with --fields: score a document by its best field instead of the sum over fields")
    dismax_tiebreaker: float = option(
        0.0, "with --dismax: weight of the fields that are not the best", low=0, high=1, name="dismax.tiebreaker"
    )
    bm25qs: bool = option(False, "weight query terms by BM25 as well (query-side BM25)")
    anserini_scores: bool = option(False, "round first-stage scores as Anserini does: to four digits, ties a millionth apart")
    stopwords: str | None = option(None, "file of stop words for English queries, one per line")
    pretokenized: bool = option(False, "take topics as tokens of the index, separated by blanks, without analysis")
    tokenizer: str | None = option(None, "Hugging Face tokenizer to split topics with (needs transformers)")
    max_passage: bool = option(False, "keep the best passage of each document, where docids are DOCUMENT#PASSAGE")
    max_passage_hits: int = option(100, "with --max-passage: documents to keep per query", low=1)
    max_passage_delimiter: str = option("#", "with --max-passage: delimiter between document and passage in a docid")
    remove_duplicates: bool = option(False, "keep only the first of several entries with the same docid")
    prcl: tuple[str, ...] | None = option(None, "the same as --rerank prcl --prcl.classifiers NAME", words=True)


@dataclass(frozen=True, kw_only=True)
class SearchSettings(PyseriniSettings, EngineSettings, QuerySettings):
    """Options of search."""

    config: str | None = option(None, "TOML file with options, as written beside run files; flags override it")
    topics: str | None = option(
        None, "topics: a file (TSV, TREC, JSONL, CACM; gzipped or not), irds:NAME, or a name that Pyserini knows"
    )
    topics_format: str | None = option(None, "format of the topics; guessed if not given", choices=TOPIC_FORMATS)
    topics_field: str = option("title", "parts of a TREC topic to search with: title, description, narrative, joined with +")
    shard: str | None = option(
        None, "search only the I-th of N parts of the topics, as I/N from 1 on; kernelsearch.merge joins the runs"
    )
    query: str | None = option(None, "search this query and print a table")
    json: bool = option(False, "with --query: print JSON, with the texts of the documents")
    run: str | None = option(None, "rerank this run file instead of searching")
    output: str | None = option(
        None, "run file to write, gzipped if its name ends with .gz; - is standard output, here and with other commands"
    )
    output_format: str = option("trec", "format of the run file", choices=("trec", "msmarco"))
    tag: str | None = option(None, "tag of the run; default: the names of the methods")
    threads: int = option(
        1, "queries to search at the same time; long lists of topics are split among as many processes", low=1
    )
    batch_size: int = option(64, "queries per batch", low=1)
    remove_query: bool = option(False, "leave out the document whose docid is the id of the query")


#: Options that a config file may hold at its top level: those that make a difference to the run, not where it is computed.
IN_CONFIG = tuple(
    declared
    for declared in SearchSettings.flags
    if declared.name not in ("config", "prcl") and declared not in EngineSettings.options
)
#: Options of a search of topics, by Python name: they have no effect with --query.
FOR_TOPICS = {
    *("run", "output", "output_format", "tag", "shard", "engine", "topics_format", "topics_field"),
    *("tokenizer", "remove_query", "max_passage", "remove_duplicates"),
}
