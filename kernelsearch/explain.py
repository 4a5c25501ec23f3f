"""`python -m kernelsearch.explain`: the list before and after a method, and why a document is ranked where it is."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline, count_fallbacks, fallback_messages
from kernelsearch.api.results import earlier_ranks, rank_change
from kernelsearch.cli import console
from kernelsearch.cli.flags import read_flags
from kernelsearch.cli.pipelines import FOR_ONE_QUERY, make_parser, parse, read_pipeline
from kernelsearch.core.errors import InputError
from kernelsearch.core.options import Settings, option
from kernelsearch.core.tables import text_table
from kernelsearch.core.types import Candidates, Query
from kernelsearch.plots.figures import picture_format


@dataclass(frozen=True, kw_only=True)
class ExplainSettings(Settings):
    """Options of explain."""

    config: str | None = option(None, "a TOML file with options, as search takes; flags override it")
    index: str | tuple[str, ...] | None = option(
        None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True
    )
    query: str | None = option(None, "the query")
    docid: str | None = option(None, "explain this document; default: the best one after reranking")
    top: int = option(10, "how much of the list to show", low=1)
    json: bool = option(False, "print JSON")
    plot: str | None = option(None, "draw the method's picture into this PNG or SVG file")
    threads: int = option(1, "search threads", low=1)
    language: str | None = option(None, "analyse the query in this language; default: the index's own")
    java_heap: str | None = option(None, "Java's heap, such as 4g")


EXAMPLES = """examples:
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems"
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems" --docid CACM-1938 --json
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems" --plot klsa.svg"""


def main(argv: list[str]) -> None:
    """Parses the flags, reranks the query's list and prints the explanation."""
    parser = make_parser("explain", "Shows what a method did to a query's list, and why.", EXAMPLES, ExplainSettings)
    arguments, _ = parse(parser, argv, FOR_ONE_QUERY)
    settings = read_flags(ExplainSettings, arguments)
    for name in ("index", "query"):
        if getattr(settings, name) is None:
            parser.error(f"--{name} is not given")
    if len(arguments.rerank) != 1:
        parser.error("--rerank: exactly one method can be explained at a time")
    if settings.plot:
        picture_format(settings.plot)
    assert settings.index is not None and settings.query is not None
    chosen = read_pipeline(arguments)
    index = Index(settings.index, language=settings.language, java_heap=settings.java_heap, progress=console.progress)
    pipeline = chosen.open(index)
    query = index.query(settings.query)
    before = pipeline.retrieve([query], threads=settings.threads)[0]
    after = pipeline.rerank([query], [before], threads=settings.threads)[0]
    if not after.depth:
        raise InputError(f"--query: no document matches {settings.query!r}")
    _show(pipeline, query, before, after, settings)
    for line in fallback_messages(count_fallbacks([after])):
        console.notice(line)


def _show(pipeline: Pipeline, query: Query, before: Candidates, after: Candidates, settings: ExplainSettings) -> None:
    """Prints the list before and after with its rank changes, and the explanation of one document."""
    index, reranker, context = pipeline.index, pipeline.rerankers[0], pipeline.context(settings.threads)
    doc = int(after.docs[0]) if settings.docid is None else index.row(settings.docid, "--docid", after)
    explanation = None if after.fallbacks else reranker.explain(query, before, doc, context)
    if settings.plot:
        reranker.plot(query, before, doc if settings.docid else None, Path(settings.plot), context)
        console.notice(f"{settings.plot}: drawn")
    top, first = after.top(settings.top), before.top(settings.top)
    listed = _ranked(index, first)
    reranked = [{**entry, "before": rank} for entry, rank in zip(_ranked(index, top), earlier_ranks(before, top), strict=True)]
    if settings.json:
        shown = explanation.to_dict() if explanation else None
        whole = {"query": query.text, "before": listed, "list": reranked, "explanation": shown}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
        return
    left = [(entry["docid"], f"{entry['score']:.4f}") for entry in listed]
    left += [("", "")] * (len(reranked) - len(left))
    rows = []
    for old, new in zip(left, reranked, strict=False):
        moved = None if new["before"] is None else new["before"] - new["rank"]
        rows.append((new["rank"], *old, new["docid"], f"{new['score']:.4f}", rank_change(moved)))
    print(text_table(("rank", "first stage", "score", reranker.name, "score", "moved"), rows, align="><><>>"))
    if explanation:
        print("\n" + "\n".join(explanation.lines()))


def _ranked(index: Index, found: Candidates) -> list[dict[str, Any]]:
    return [
        {"rank": rank, "docid": docid, "score": score}
        for rank, (docid, score) in enumerate(zip(index.forward.docids.take(found.docs), found.scores.tolist(), strict=True), 1)
    ]


if __name__ == "__main__":
    console.run(main)
