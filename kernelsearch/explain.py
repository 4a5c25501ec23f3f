"""`python -m kernelsearch.explain`: the list before and after a method, and why a document stands where it stands."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.cli import console
from kernelsearch.core.errors import InputError
from kernelsearch.core.options import Option, collect, resolve
from kernelsearch.core.types import Candidates, Query
from kernelsearch.search import make_parser, make_pipeline, parse

OPTIONS = (
    Option("config", str, None, "a TOML file with options, as search takes; flags override it"),
    Option("index", str, None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True),
    Option("query", str, None, "the query"),
    Option("docid", str, None, "explain this document; default: the best one after reranking"),
    Option("top", int, 10, "how much of the list to show", low=1),
    Option("json", bool, False, "print JSON"),
    Option("plot", str, None, "draw the method's picture into this PNG or SVG file"),
    Option("threads", int, 1, "search threads", low=1),
    Option("language", str, None, "analyse the query in this language; default: the index's own"),
    Option("java-heap", str, None, "Java's heap, such as 4g"),
)

EXAMPLES = """examples:
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems"
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems" --docid CACM-1938 --json
  python -m kernelsearch.explain --index indexes/cacm --rerank klsa --query "time sharing systems" --plot klsa.svg"""


def main(argv: list[str]) -> None:
    parser = make_parser("explain", "Shows what a method did to a query's list, and why.", EXAMPLES, OPTIONS)
    arguments, _ = parse(parser, argv, ("index", "language", "java_heap"))
    settings = resolve(OPTIONS, collect(arguments, OPTIONS))
    for name in ("index", "query"):
        if settings[name] is None:
            parser.error(f"--{name} is not given")
    if len(arguments.rerank) != 1:
        parser.error("--rerank: exactly one method can be explained at a time")
    if settings["plot"] and Path(settings["plot"]).suffix.lower() not in (".png", ".svg"):
        raise InputError(f"--plot: {settings['plot']}: only .png and .svg can be drawn")
    pipeline = make_pipeline(arguments, settings)
    query = pipeline.index.query(settings["query"])
    before = pipeline.first.search(pipeline.index, [query])[0]
    after = pipeline.rerank([query], [before])[0]
    if not after.depth:
        raise InputError(f"--query: no document matches {settings['query']!r}")
    show(pipeline, query, before, after, settings)
    for line in pipeline.kept():
        console.notice(line)


def show(pipeline: Pipeline, query: Query, before: Candidates, after: Candidates, settings: dict[str, Any]) -> None:
    """Prints the list before and after with its rank changes, and the explanation of one document."""
    index, reranker = pipeline.index, pipeline.rerankers[0]
    doc = _row(pipeline, settings["docid"], after)
    old = {int(row): rank for rank, row in enumerate(before.docs, 1)}
    top = after.docs[: settings["top"]]
    ranked: list[dict[str, Any]] = [
        {"rank": rank, "docid": docid, "before": old.get(int(row)), "score": float(score)}
        for rank, (row, docid, score) in enumerate(
            zip(top, index.forward.docids.take(top), after.scores[: settings["top"]], strict=True), 1
        )
    ]
    first = before.docs[: settings["top"]]
    listed: list[dict[str, Any]] = [
        {"rank": rank, "docid": docid, "score": float(score)}
        for rank, (docid, score) in enumerate(zip(index.forward.docids.take(first), before.scores.tolist(), strict=False), 1)
    ]
    explanation = None if reranker.kept else reranker.explain(query, before, doc)
    if settings["plot"]:
        if importlib.util.find_spec("matplotlib"):  # where it isn't, the method says what is missing
            import matplotlib

            matplotlib.rcParams["text.parse_math"] = False  # a dollar in a query is a dollar, not the beginning of a formula
        reranker.plot(query, before, doc if settings["docid"] else None, Path(settings["plot"]))
        console.notice(f"{settings['plot']}: drawn")
    if settings["json"]:
        shown = explanation.to_dict() if explanation else None
        whole = {"query": query.text, "before": listed, "list": ranked, "explanation": shown}
        print(json.dumps(whole, indent=1, ensure_ascii=False))
        return
    left = [(one["docid"], f"{one['score']:.4f}") for one in listed]
    rows = [
        (new["rank"], *old, new["docid"], f"{new['score']:.4f}", _moved(new["rank"], new["before"]))
        for old, new in zip(left + [("", "")] * (len(ranked) - len(left)), ranked, strict=False)
    ]
    print(console.table(("rank", "first stage", "score", reranker.name, "score", "moved"), rows, align="><><>>"))
    if explanation:
        print("\n" + "\n".join(explanation.lines()))


def _moved(rank: int, before: int | None) -> str:
    if before is None:
        return "new"
    return "=" if before == rank else f"{before - rank:+d}"


def _row(pipeline: Pipeline, docid: str | None, after: Candidates) -> int:
    if docid is None:
        return int(after.docs[0])
    row = int(pipeline.index.forward.rows_of([docid])[0])
    if row < 0:
        raise InputError(f"--docid: {docid!r} is not in {pipeline.index.name}")
    if not np.any(after.docs == row):
        raise InputError(f"--docid: {docid!r} is not among the {after.depth} documents of this query's list")
    return row


if __name__ == "__main__":
    console.run(main)
