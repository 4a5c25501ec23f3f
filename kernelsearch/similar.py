"""`python -m kernelsearch.similar`: documents similar to a document, and learning what makes documents similar."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.cli.inputs import load_qrels
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import lines
from kernelsearch.core.options import Option, add_flags, collect, resolve

OPTIONS = (
    Option("index", str, None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True),
    Option("docid", str, None, "find documents similar to this one"),
    Option("top", int, 10, "how many", low=1),
    Option("depth", int, 100, "candidates by shared terms, and as many from the latent space", low=1),
    Option("kernels", str, None, "kernels between documents, separated by spaces; default: by the index's fields"),
    Option("model", str, None, "a learned model; without it all kernels count alike"),
    Option("explain", str, None, "why this document is similar: each kernel's part"),
    Option("plot", str, None, "with --explain: draw the parts into this PNG or SVG file"),
    Option("json", bool, False, "print JSON"),
    Option("qrels", str, None, "learn: documents judged relevant to the same topic are similar"),
    Option("clicks", str, None, "learn: documents clicked for the same query are similar"),
    Option("pairs", str, None, "learn: a file of similar documents, two docids a line"),
    Option("learner", str, "best", "best, simlistmkl, svm, net, boost, combsum, combmnz or rrf",
           choices=("best", "simlistmkl", "svm", "net", "boost", "combsum", "combmnz", "rrf")),
    Option("limit", int, 1000, "documents to learn from", low=2),
    Option("random-state", int, 0, "seed", low=0),
    Option("output", str, None, "learn: where to save the model"),
    Option("java-heap", str, None, "Java's heap, such as 4g"),
)  # fmt: skip

EXAMPLES = """examples:
  python -m kernelsearch.similar --index indexes/cran --docid 184
  python -m kernelsearch.similar --index indexes/cran --qrels qrels.txt --output models/cran-similar
  python -m kernelsearch.similar --index indexes/cran --docid 184 --model models/cran-similar --explain 29
  python -m kernelsearch.similar --index indexes/apps --docid maps --kernels "string:field=name cosine number:field=rating\""""


def main(argv: list[str]) -> None:
    parser = console.Parser(prog="python -m kernelsearch.similar", description="Finds similar documents.", epilog=EXAMPLES)
    add_flags(parser, OPTIONS)
    settings = resolve(OPTIONS, collect(parser.parse_args(argv), OPTIONS))
    if settings["index"] is None:
        parser.error("--index is not given")
    sources = [name for name in ("qrels", "clicks", "pairs") if settings[name]]
    if len(sources) > 1:
        parser.error(f"--{sources[0]} and --{sources[1]} exclude each other")
    if not sources and settings["docid"] is None:
        parser.error("--docid is not given")
    if sources and settings["output"] is None:
        parser.error("--output is not given")
    if settings["java_heap"]:
        from kernelsearch.lucene import jvm

        jvm.configure(heap=settings["java_heap"])
    from kernelsearch.similarity.engine import SimilarDocuments, truth_from_groups

    kernels = settings["kernels"].split() if settings["kernels"] else None
    finder = SimilarDocuments(Index(settings["index"]), kernels=kernels, model=settings["model"], depth=settings["depth"])
    if sources:
        truth = truth_from_groups(_groups(settings))
        saved = finder.fit(
            truth,
            settings["output"],
            learner=settings["learner"],
            limit=settings["limit"],
            random_state=settings["random_state"],
        )
        console.notice(f"{saved}: fitted")
    if settings["docid"] is not None:
        _show(finder, settings)


def _groups(settings: dict[str, Any]) -> Iterable[Iterable[str]]:
    """Sets of documents that belong together, from whatever was given."""
    if settings["qrels"]:
        return [[docid for docid, grade in one.items() if grade > 0] for one in load_qrels(settings["qrels"]).values()]
    if settings["pairs"]:
        found = []
        for number, line in lines(settings["pairs"]):
            if line.strip():
                pair = line.split("\t") if "\t" in line else line.split()
                if len(pair) != 2:
                    raise InputError(f"{settings['pairs']}: line {number}: two docids were expected, {len(pair)} found")
                found.append([docid.strip() for docid in pair])
        return found
    from kernelsearch.clicks.store import ClickLog

    log = ClickLog(Path(settings["clicks"]))
    shown = log.shown(np.array([number for number, _ in log.all_queries()], dtype=np.int64), clicked_only=True)
    groups: dict[int, list[str]] = {}
    for query, docid in zip(shown.queries.tolist(), log.docids(shown.docs), strict=True):
        groups.setdefault(query, []).append(docid)
    return list(groups.values())


def _show(finder: Any, settings: dict[str, Any]) -> None:
    found = finder.find(settings["docid"], settings["top"])
    told = finder.explain(settings["docid"], settings["explain"]) if settings["explain"] else None
    if settings["plot"]:
        if told is None:
            raise InputError("--plot: draws an explanation; --explain says of which document")
        if Path(settings["plot"]).suffix.lower() not in (".png", ".svg"):
            raise InputError(f"--plot: {settings['plot']}: only .png and .svg can be drawn")
        from kernelsearch.rerankers.fusion.plot import draw

        draw(told, f"{settings['docid']} and {settings['explain']}", Path(settings["plot"]))
        console.notice(f"{settings['plot']}: drawn")
    if settings["json"]:
        similar = [{"rank": rank, "docid": docid, "score": score} for rank, (docid, score) in enumerate(found, 1)]
        shown = {"docid": settings["docid"], "similar": similar, "explanation": told.to_dict() if told else None}
        print(json.dumps(shown, indent=1, ensure_ascii=False))
        return
    rows = [(rank, docid, f"{score:.4f}") for rank, (docid, score) in enumerate(found, 1)]
    print(console.table(("rank", "docid", "score"), rows, align="><>"))
    if told:
        print("\n" + "\n".join(told.lines()))


if __name__ == "__main__":
    console.run(main)
