"""`python -m kernelsearch.explain`: the list before and after a method, and why a document is ranked where it is."""

from __future__ import annotations

import json
from dataclasses import dataclass

from kernelsearch.api.explaining import ExplainedQuery, explain_query
from kernelsearch.api.pipeline import count_fallbacks, fallback_messages
from kernelsearch.api.readable import read_explanation
from kernelsearch.api.results import format_rank_change, make_snippets
from kernelsearch.cli import console
from kernelsearch.cli.flags import SINGLE_QUERY, make_parser, open_index, parse, read_flags, read_pipeline, require
from kernelsearch.cli.settings import QuerySettings
from kernelsearch.core.options import option
from kernelsearch.plots.figures import picture_format


@dataclass(frozen=True, kw_only=True)
class ExplainSettings(QuerySettings):
    """Options of explain."""

    config: str | None = option(None, "TOML file with options, as search takes; flags override it")
    query: str | None = option(None, "query whose ranking is explained")
    qid: str = option("", "the query's topic id, by which --vectors.queries and run files know it")
    docid: str | None = option(None, "document to explain; default: the best document after reranking")
    top: int = option(10, "documents of the list to show", low=1)
    full: bool = option(False, "print all contributions to the score; default: the largest")
    json: bool = option(False, "print JSON, with all contributions")
    plot: str | None = option(None, "PNG or SVG file to draw the method's plot into")
    threads: int = option(1, "search threads", low=1)


EXAMPLES = """examples:
  python -m kernelsearch.explain --index indexes/cacm --query "time sharing systems"                 (the first stage, by term)
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems"
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems" --docid CACM-1938 --json
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems" --plot klsa.svg"""

#: Options of the short help.
COMMON = ("index", "query", "rerank", "docid", "top", "full", "json", "plot")


def main(argv: list[str]) -> None:
    """Parses the flags, reranks the list of the query and prints the explanation."""
    parser = make_parser(
        "explain",
        "Shows why a document is ranked where it is, and how a method changed the list.",
        EXAMPLES,
        ExplainSettings.flags,
        COMMON,
    )
    arguments, _ = parse(parser, argv, SINGLE_QUERY)
    settings = read_flags(ExplainSettings, arguments)
    require(parser, settings, "index", "query")
    if settings.plot:
        picture_format(settings.plot)
    chosen = read_pipeline(arguments)
    pipeline = chosen.open(open_index(settings, console.progress, language=settings.language, few_calls=True))
    explained = explain_query(
        pipeline, settings.query or "", settings.docid, qid=settings.qid, plot=settings.plot, threads=settings.threads
    )
    if settings.plot:
        console.notice(f"{settings.plot}: drawn")
    if settings.json:
        console.show(json.dumps(explained.to_dict(settings.top), indent=1, ensure_ascii=False))
    else:
        _print_table(explained, settings.top)
        if explained.explanation:
            reading = read_explanation(pipeline.index, explained.explanation, explained.query.text)
            console.show_lines(["", *reading.rewrite(explained.explanation, settings.full).lines()])
    for line in [*pipeline.parts_in_use, *fallback_messages(count_fallbacks([explained.after]))]:
        console.notice(line)


def _print_table(explained: ExplainedQuery, top: int) -> None:
    """Prints the lists before and after side by side, with how far each document moved; one list where there is no method."""
    before, after = explained.entries_before(top), explained.entries_after(top)
    header: tuple[str, ...] = ("rank", "docid", "score")
    rows: list[tuple[str, ...]] = [(str(entry.rank), entry.docid, f"{entry.score:.4f}") for entry in after]
    if explained.pipeline.rerankers:
        header = ("rank", "first stage", "score", explained.method, "score", "moved")
        left = [(entry.docid, f"{entry.score:.4f}") for entry in before]
        left += [("", "")] * (len(after) - len(left))
        rows = [
            (rank, *old, docid, score, format_rank_change(entry.moved))
            for (rank, docid, score), old, entry in zip(rows, left, after, strict=False)
        ]
    lucene, width = explained.pipeline.index.lucene, console.text_width(header, rows)
    snippets, words = make_snippets(lucene, explained.query, explained.after.top(top).docs, width)
    console.show_documents(header, rows, snippets, words, align="><><>>" if explained.pipeline.rerankers else "><>")


if __name__ == "__main__":
    console.run(main)
