"""`python -m kernelsearch.search`: from topics (or a run, or one query) to ranked lists."""

from __future__ import annotations

import json
from collections import Counter

from kernelsearch.api import config
from kernelsearch.api.pipeline import Pipeline, fallback_messages
from kernelsearch.api.results import Results
from kernelsearch.cli import console
from kernelsearch.cli.flags import check_search, make_parser, open_pipeline, parse, read_flags
from kernelsearch.cli.pyserini_flags import REFUSED, refuse
from kernelsearch.cli.running import search_topics, write_recipe
from kernelsearch.cli.search_settings import SearchSettings
from kernelsearch.core.files import is_special
from kernelsearch.lucene.models import FirstStageSettings

EXAMPLES = """examples:
  python -m kernelsearch.search --index indexes/cacm --query "time sharing systems"
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --output runs/bm25.txt
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --output runs/rm3.txt --rm3 --threads 2
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --run runs/bm25.txt --rerank NAME --output new.txt
  python -m kernelsearch.search --index indexes/part1 --index indexes/part2 --query "time sharing systems"
  python -m kernelsearch.search --index indexes/cacm --topics topics.tsv --shard 2/8 --output runs/part-2.txt"""

#: Options of the short help.
COMMON = ("index", "query", "json", "topics", "output", "rerank", "hits", "rm3", "run", "config", "threads")
#: Documents in the printed table, unless --hits is given.
SHOWN = 10


def main(argv: list[str]) -> None:
    """Parses the flags, searches, and prints a table or writes a run file."""
    if not REFUSED.keys().isdisjoint(word.partition("=")[0] for word in argv):
        refuse(argv)
    parser = make_parser(
        "search", "Searches an index, reranks, and prints a table or writes a run file.", EXAMPLES, SearchSettings.flags, COMMON
    )
    arguments, recipe = parse(parser, argv)
    settings = read_flags(SearchSettings, arguments)
    check_search(parser, settings)
    pipeline, first = open_pipeline(arguments, settings, console.progress)
    for line in [*(config.differences(recipe, pipeline) if recipe else ()), *pipeline.parts_in_use]:
        console.notice(line)
    if settings.query is not None:
        # A config file contains the default, too: nobody chose a table of a thousand lines by it.
        chosen = first.hits != FirstStageSettings().hits or "hits" in arguments.on_command_line
        fallbacks = _print_results(pipeline, settings, first.hits if chosen else SHOWN)
    else:
        count, fallbacks = search_topics(pipeline, settings, progress=console.progress)
        console.notice(f"{settings.output}: {count} queries")
        if not is_special(settings.output or ""):
            write_recipe(pipeline, settings, first)
    for line in fallback_messages(fallbacks):
        console.notice(line)


def _print_results(pipeline: Pipeline, settings: SearchSettings, top: int) -> Counter[tuple[str, str]]:
    """Prints the `top` documents for the query as a table or as JSON; returns the fallbacks of the methods."""
    results = pipeline.answer(str(settings.query), top, threads=settings.threads)
    if settings.json:
        moves = zip(results, results.moved(), strict=True)
        record = {
            "query": settings.query,
            "methods": [reranker.name for reranker in pipeline.rerankers],
            "notes": pipeline.parts_in_use,
            "hits": [
                {"rank": rank, "docid": hit.docid, "score": hit.score, "moved": moved, "text": hit.contents}
                for rank, (hit, moved) in enumerate(moves, 1)
            ],
        }
        console.show(json.dumps(record, indent=1, ensure_ascii=False))
    elif results:
        _print_table(results, bool(pipeline.rerankers))
    else:
        console.notice(f"no document matches {settings.query!r}; check the spelling, or use other words for the same thing")
    return Counter(results.fallbacks)


def _print_table(results: Results, reranked: bool) -> None:
    """Prints documents with titles and snippets."""
    columns = 4 if reranked else 3
    header, cells = ("rank", "docid", "score", "moved")[:columns], [row[:columns] for row in results.cells()]
    snippets, words = results.snippets(console.text_width(header, cells))
    console.show_documents(header, cells, snippets, words, align="><>>"[:columns])


if __name__ == "__main__":
    console.run(main)
