"""`python -m kernelsearch.search`: from topics (or a run, or one query) to ranked lists."""

from __future__ import annotations

import argparse
import os
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

from kernelsearch import engines, rerankers
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import FIRST_STAGE, FirstStage, Pipeline
from kernelsearch.api.topics import SearchPlan, Topic, search_topics
from kernelsearch.cli import config, console, pyserini_flags
from kernelsearch.cli.inputs import load_topics
from kernelsearch.core.errors import IndexProblem, InputError, OptionError
from kernelsearch.core.options import Option, add_flags, collect, resolve
from kernelsearch.trec import read_run, write_run
from kernelsearch.trec.runs import RankedList
from kernelsearch.trec.topics import parse_part, topics_part

OPTIONS = (
    Option("config", str, None, "a TOML file with options, as written beside run files; flags override it"),
    Option("index", str, None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True),
    Option("topics", str, None, "a file of topics (TSV, TREC, JSONL, CACM; gzipped or not), irds:NAME, or Pyserini's name"),
    Option("topics-format", str, None, "how to read it; guessed if not given", choices=("tsv", "trec", "jsonl", "cacm")),
    Option("topics-field", str, "title", "parts of a TREC topic: title, description, narrative, joined with +"),
    Option("shard", str, None, "only the I-th of N parts of the topics, as I/N from 1 on; kernelsearch.merge joins the runs"),
    Option("query", str, None, "one query, printed as a table"),
    Option("run", str, None, "rerank this run file instead of searching"),
    Option("output", str, None, "the run file to write"),
    Option("output-format", str, "trec", "its form", choices=("trec", "msmarco")),
    Option("tag", str, None, "the run's tag; default: the methods' names"),
    Option("threads", int, 1, "search threads", low=1),
    Option("batch-size", int, 64, "queries a batch", low=1),
    Option("remove-query", bool, False, "leave out the document whose id is the query's"),
    *pyserini_flags.OPTIONS,
    Option("language", str, None, "analyse queries in this language; default: the index's own"),
    Option("java-heap", str, None, "Java's heap, such as 4g"),
    *engines.OPTIONS,
)

#: A run as it is read: {qid: [(docid, score), ...]}
Run = dict[str, list[tuple[str, float]]]

#: What a config file may say at its top level: what makes a difference to the run, not where it was computed.
IN_CONFIG = tuple(option for option in OPTIONS if option.name != "config" and option not in engines.OPTIONS)

EXAMPLES = """examples:
  python -m kernelsearch.search --index indexes/cacm --query "time sharing systems"
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --output runs/bm25.txt
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --output runs/rm3.txt --rm3 --threads 2
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --run runs/bm25.txt --rerank NAME --output new.txt
  python -m kernelsearch.search --index indexes/part1 --index indexes/part2 --query "time sharing systems"
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --shard 2/8 --output runs/part-2.txt"""


def main(argv: list[str]) -> None:
    parser = make_parser("search", "Searches an index, reranks, and prints a table or writes a run file.", EXAMPLES, OPTIONS)
    pyserini_flags.add_refused(parser)
    arguments, recipe = parse(parser, argv)
    pyserini_flags.check_formats(arguments)
    settings = resolve(OPTIONS, collect(arguments, OPTIONS))
    if settings["index"] is None:
        parser.error("--index is not given")
    if (settings["query"] is None) == (settings["topics"] is None):
        parser.error("one of --query and --topics is needed")
    if settings["topics"] is not None and settings["output"] is None:
        parser.error("--output: the run file to write is not given")
    if settings["shard"] is not None:
        if settings["topics"] is None:
            parser.error("--shard: has no effect without --topics")
        parse_part(settings["shard"])
    if settings["engine"] != "local" and settings["topics"] is None:
        parser.error("--engine: has no effect without --topics")
    opening = pyserini_flags.opening(settings)
    try:
        pipeline = make_pipeline(arguments, opening)
    except IndexProblem:
        if (folder := pyserini_flags.prebuilt(settings["index"])) is None:
            raise
        pyserini_flags.take_bm25(arguments, settings["index"])
        pipeline = make_pipeline(arguments, {**opening, "index": folder})
    pipeline.first = pyserini_flags.first_stage(pipeline.first, settings)
    pyserini_flags.set_stopwords(pipeline.index, settings["stopwords"])
    for line in config.differences(recipe, pipeline):
        console.notice(line)
    if settings["query"] is not None:
        one_query(pipeline, settings)
    else:
        many_queries(pipeline, settings)
        write_recipe(pipeline, settings, resolve(FIRST_STAGE, collect(arguments, FIRST_STAGE)))
    for line in pipeline.kept():
        console.notice(line)


def make_parser(verb: str, description: str, examples: str, options: tuple[Option, ...]) -> argparse.ArgumentParser:
    """A parser with the verb's options, the first stage's, and those of every method."""
    parser = console.Parser(prog=f"python -m kernelsearch.{verb}", description=description, epilog=examples)
    add_flags(parser, options)
    add_flags(parser, FIRST_STAGE, title="first stage")
    known = ", ".join(rerankers.names()) or "none yet"
    parser.add_argument(
        "--rerank", action="append", default=[], metavar="NAME", help=f"rerank with this method; repeatable ({known})"
    )
    for name in rerankers.names():
        method = rerankers.method(name)
        add_flags(parser, method.options, owner=name, title=f"--rerank {name}: {method.summary}")
    return parser


def parse(
    parser: argparse.ArgumentParser, argv: list[str], taken: Sequence[str] | None = None
) -> tuple[argparse.Namespace, config.Config]:
    """Flags, with the values of `--config` below them; `taken` are the file's options that count (None: all of them)."""
    arguments = parser.parse_args(argv)
    if hasattr(arguments, "prcl"):
        pyserini_flags.take_prcl(arguments)
    recipe = config.read(arguments.config, IN_CONFIG) if hasattr(arguments, "config") else config.Config()
    if hasattr(arguments, "query"):  # an answer on the terminal: what the file says of a run doesn't apply
        taken = ("index", "language", "java_heap")
    for name in set(recipe.verb) - set(recipe.verb if taken is None else taken):
        del recipe.verb[name]
    config.fill(arguments, recipe)
    return arguments, recipe


def make_pipeline(arguments: argparse.Namespace, settings: dict[str, Any]) -> Pipeline:
    """The pipeline that the flags describe. Options of a method that isn't used are refused: they would be silently lost."""
    if settings.get("java_heap"):
        from kernelsearch.lucene import jvm

        jvm.configure(heap=settings["java_heap"])
    chosen = [(name, collect(arguments, rerankers.method(name).options, name)) for name in arguments.rerank]
    for name in rerankers.names():
        if name not in arguments.rerank and (given := collect(arguments, rerankers.method(name).options, name)):
            raise OptionError(f"--{name}.{next(iter(given)).replace('_', '-')}: has no effect without --rerank {name}")
    first = FirstStage.from_settings(resolve(FIRST_STAGE, collect(arguments, FIRST_STAGE)))
    return Pipeline(Index(settings["index"], language=settings.get("language")), first, chosen)


def one_query(pipeline: Pipeline, settings: dict[str, Any]) -> None:
    """Prints the best documents of a query with the beginning of their text."""
    if not settings["query"].strip():
        raise InputError("--query: no text")
    index = pipeline.index
    query = index.query(settings["query"])
    found = pipeline.search([query], threads=settings["threads"])[0]
    shown = min(found.depth, 10 if pipeline.first.hits == 1000 else pipeline.first.hits)
    if not shown:
        console.notice(f"no document matches {settings['query']!r}")
        return
    width = max(30, shutil.get_terminal_size((110, 20)).columns - 40)
    docids = index.forward.docids.take(found.docs[:shown])
    texts = index.lucene.stored(found.docs[:shown], "contents")
    rows = [
        (rank, docid, f"{score:.4f}", " ".join((text or "").split())[:width])
        for rank, (docid, score, text) in enumerate(zip(docids, found.scores[:shown].tolist(), texts, strict=True), 1)
    ]
    print(console.table(("rank", "docid", "score", "text"), rows, align="><><"))


def many_queries(pipeline: Pipeline, settings: dict[str, Any]) -> None:
    """Writes a run file."""
    topics = pyserini_flags.named_topics(settings["topics"], settings["topics_field"])
    if topics is None:
        topics = load_topics(settings["topics"], settings["topics_format"], settings["topics_field"])
    topics = pyserini_flags.tokenised(topics, settings["tokenizer"])
    run = _run(settings, topics) if settings["run"] else None
    if settings["shard"] is not None:
        topics = topics_part(topics, parse_part(settings["shard"]))
    tag = settings["tag"] or "-".join(["kernelsearch", *(reranker.name for reranker in pipeline.rerankers)])
    if any(letter.isspace() for letter in tag):
        raise OptionError(f"--tag: {tag!r} has white space in it")
    work = [Topic(qid, text, None if run is None else run[qid]) for qid, text in topics.items() if run is None or qid in run]
    plan = SearchPlan(
        pipeline.index,
        pipeline.first,
        tuple((reranker.name, reranker.settings) for reranker in pipeline.rerankers),
        threads=settings["threads"],
        remove_query=settings["remove_query"],
        java_heap=settings["java_heap"],
        run=settings["run"] or "",
        artefacts=os.environ.get("KERNELSEARCH_ARTEFACTS"),
    )
    with engines.make_engine(settings) as engine, console.progress(total=len(work), label="searching", unit="query") as bar:
        found = search_topics(engine, plan, pipeline, work, settings["batch_size"])
        ranked = ((qid, *pyserini_flags.tidied(docids, scores, qid, settings)) for qid, docids, scores in found)
        count = write_run(settings["output"], _counted(ranked, bar), settings["output_format"], tag)
    console.notice(f"{settings['output']}: {count} queries")


def write_recipe(pipeline: Pipeline, settings: dict[str, Any], first: dict[str, Any]) -> None:
    """Writes all options, defaults included, and what the run was made with, to OUTPUT.toml."""
    kept = {option.key for option in IN_CONFIG} - {"query"}
    verb = {name: value for name, value in settings.items() if name in kept}
    files = {"topics": settings["topics"], "run": settings["run"], "output": settings["output"]}
    methods = [(reranker.name, reranker.settings) for reranker in pipeline.rerankers]
    path = f"{settings['output']}.toml"
    again = f"python -m kernelsearch.search --config {path} makes {settings['output']} again"
    config.write(path, verb, first, methods, config.made_with(pipeline, files), again)


def _run(settings: dict[str, Any], topics: dict[str, str]) -> Run:
    run = read_run(settings["run"])
    unknown = [qid for qid in run if qid not in topics]
    if unknown:
        raise InputError(f"{settings['run']}: topic {unknown[0]} is not in {settings['topics']}")
    return run


def _counted(ranked: Iterator[RankedList], bar: Any) -> Iterator[RankedList]:
    for one in ranked:
        yield one
        bar.update()


if __name__ == "__main__":
    console.run(main)
