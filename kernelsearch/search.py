"""`python -m kernelsearch.search`: from topics (or a run, or one query) to ranked lists."""

from __future__ import annotations

import argparse
import shutil
from collections import Counter
from functools import partial

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline, count_fallbacks, fallback_messages
from kernelsearch.cli import config, console, pyserini_flags
from kernelsearch.cli.flags import read_flags
from kernelsearch.cli.pipelines import make_parser, parse, read_pipeline
from kernelsearch.cli.running import search_topics, write_recipe
from kernelsearch.cli.search_settings import SearchSettings
from kernelsearch.core.errors import IndexProblem, InputError
from kernelsearch.core.tables import text_table
from kernelsearch.lucene.first_stage import FirstStage, FirstStageSettings
from kernelsearch.trec.topics import parse_part

EXAMPLES = """examples:
  python -m kernelsearch.search --index indexes/cacm --query "time sharing systems"
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --output runs/bm25.txt
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --output runs/rm3.txt --rm3 --threads 2
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --run runs/bm25.txt --rerank NAME --output new.txt
  python -m kernelsearch.search --index indexes/part1 --index indexes/part2 --query "time sharing systems"
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --shard 2/8 --output runs/part-2.txt"""

#: Documents in the printed table, unless --hits asks for another number.
SHOWN = 10


def main(argv: list[str]) -> None:
    """Parses the flags, searches, and prints a table or writes a run file."""
    parser = make_parser(
        "search", "Searches an index, reranks, and prints a table or writes a run file.", EXAMPLES, SearchSettings
    )
    pyserini_flags.add_refused(parser)
    arguments, recipe = parse(parser, argv)
    pyserini_flags.check_formats(arguments)
    settings = read_flags(SearchSettings, arguments)
    _check(parser, settings)
    pipeline, first = _open(arguments, settings)
    for line in config.differences(recipe, pipeline):
        console.notice(line)
    if settings.query is not None:
        fallbacks = _print_table(pipeline, settings)
    else:
        count, fallbacks = search_topics(pipeline, settings, progress=console.progress)
        console.notice(f"{settings.output}: {count} queries")
        write_recipe(pipeline, settings, first)
    for line in fallback_messages(fallbacks):
        console.notice(line)


def _check(parser: argparse.ArgumentParser, settings: SearchSettings) -> None:
    """Refuses what can't be searched."""
    if settings.index is None:
        parser.error("--index is not given")
    if (settings.query is None) == (settings.topics is None):
        parser.error("one of --query and --topics is needed")
    if settings.topics is not None and settings.output is None:
        parser.error("--output: the run file to write is not given")
    if settings.shard is not None:
        if settings.topics is None:
            parser.error("--shard: has no effect without --topics")
        parse_part(settings.shard)
    if settings.engine != "local" and settings.topics is None:
        parser.error("--engine: has no effect without --topics")


def _open(arguments: argparse.Namespace, settings: SearchSettings) -> tuple[Pipeline, FirstStageSettings]:
    """The pipeline, over the index of that name or Pyserini's prebuilt one, and the first stage's options."""
    chosen = read_pipeline(arguments)
    assert settings.index is not None
    language = pyserini_flags.query_language(settings)
    open_index = partial(Index, language=language, java_heap=settings.java_heap, progress=console.progress)
    try:
        index = open_index(settings.index)
    except IndexProblem:
        if (folder := pyserini_flags.prebuilt(settings.index)) is None:
            raise
        pyserini_flags.take_bm25(arguments, str(settings.index))
        index = open_index(folder)
        chosen = read_pipeline(arguments)
    pyserini_flags.set_stopwords(index, settings.stopwords)
    first = pyserini_flags.first_stage(FirstStage.from_settings(chosen.first), settings)
    return Pipeline(index, first, chosen.methods), chosen.first


def _print_table(pipeline: Pipeline, settings: SearchSettings) -> Counter[tuple[str, str]]:
    """Prints the best documents of a query with the beginning of their text."""
    text = settings.query or ""
    if not text.strip():
        raise InputError("--query: no text")
    index = pipeline.index
    found = pipeline.search([index.query(text)], threads=settings.threads)[0]
    top = found.top(SHOWN if pipeline.first.hits == 1000 else pipeline.first.hits)
    if not top.depth:
        console.notice(f"no document matches {text!r}")
        return count_fallbacks([found])
    width = max(30, shutil.get_terminal_size((110, 20)).columns - 40)
    docids, texts = index.forward.docids.take(top.docs), index.lucene.stored(top.docs, "contents")
    rows = [
        (rank, docid, f"{score:.4f}", " ".join((stored or "").split())[:width])
        for rank, (docid, score, stored) in enumerate(zip(docids, top.scores.tolist(), texts, strict=True), 1)
    ]
    print(text_table(("rank", "docid", "score", "text"), rows, align="><><"))
    return count_fallbacks([found])


if __name__ == "__main__":
    console.run(main)
