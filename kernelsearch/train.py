"""`python -m kernelsearch.train`: fits what a method needs and keeps it beside the index."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from kernelsearch import engines, rerankers
from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core import memory_limit as memory
from kernelsearch.core.options import Option, add_flags, collect, resolve
from kernelsearch.rerankers.base import TrainingData

OPTIONS = (
    Option("index", str, None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True),
    Option("topics", str, None, "training topics, where a method learns from judgements: a file or irds:NAME"),
    Option("qrels", str, None, "their judgements: a file or irds:NAME"),
    Option("clicks", str, None, "a click log, where a method learns from clicks"),
    Option("ltr", str, None, "a LETOR (svmlight) file of features to learn from, instead of an index"),
    Option("ltr-test", str, None, "with --ltr: a file to rank with what was learned, and its measures"),
    Option("output", str, None, "where to save; default: beside the index"),
    memory.OPTION,
    *engines.OPTIONS,
    Option("java-heap", str, None, "Java's heap, such as 4g"),
)

EXAMPLES = """examples:
  python -m kernelsearch.train --index indexes/cacm --rerank klsa --klsa.dims 300
  python -m kernelsearch.train --index indexes/cacm --rerank mslm
  python -m kernelsearch.train --index indexes/cacm --rerank fusion --topics topics.tsv --qrels qrels.txt
  python -m kernelsearch.train --ltr train.txt --ltr-test test.txt --rerank fusion --output models/mq2008"""


def main(argv: list[str]) -> None:
    parser = console.Parser(prog="python -m kernelsearch.train", description="Fits a method to an index.", epilog=EXAMPLES)
    add_flags(parser, OPTIONS)
    known = ", ".join(rerankers.names()) or "none yet"
    parser.add_argument("--rerank", required=True, metavar="NAME", help=f"the method to fit ({known})")
    for name in rerankers.names():
        method = rerankers.method(name)
        if method.fit_options:
            add_flags(parser, method.fit_options, owner=name, title=f"--rerank {name}: {method.summary}")
    arguments = parser.parse_args(argv)
    settings = resolve(OPTIONS, collect(arguments, OPTIONS))
    if settings["index"] is None and settings["ltr"] is None:
        parser.error("--index is not given")
    method = rerankers.method(arguments.rerank)
    limit = memory.MemoryLimit.parse(settings["memory_limit"])
    if settings["java_heap"]:
        from kernelsearch.lucene import jvm

        jvm.configure(heap=settings["java_heap"])
    elif limit is not None:
        limit.bound_java()
    data = TrainingData(
        topics=load_topics(settings["topics"]) if settings["topics"] else {},
        qrels=load_qrels(settings["qrels"]) if settings["qrels"] else {},
        clicks=Path(settings["clicks"]) if settings["clicks"] else None,
        output=Path(settings["output"]) if settings["output"] else None,
        ltr=Path(settings["ltr"]) if settings["ltr"] else None,
        ltr_test=Path(settings["ltr_test"]) if settings["ltr_test"] else None,
        memory_limit=limit,
    )
    options = collect(arguments, method.fit_options, arguments.rerank)
    index = None if data.ltr else Index(settings["index"])
    with engines.make_engine(settings) as engine:
        data = replace(data, engine=engine)
        saved = method.fit_features(data, **options) if index is None else method.fit(index, data, **options)
    console.notice(f"{saved}: fitted")


if __name__ == "__main__":
    console.run(main)
