"""`python -m kernelsearch.similar`: documents similar to a document, and learning what makes documents similar."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.inputs import load_qrels
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import lines
from kernelsearch.core.options import Settings, option
from kernelsearch.core.tables import text_table
from kernelsearch.similarity.engine import SimilarDocuments, truth_from_groups


@dataclass(frozen=True, kw_only=True)
class SimilarSettings(Settings):
    """Options of similar."""

    index: str | tuple[str, ...] | None = option(
        None, "the index, or a folder of shards; repeatable: several are one collection", repeat=True
    )
    docid: str | None = option(None, "find documents similar to this one")
    top: int = option(10, "how many", low=1)
    depth: int = option(100, "candidates by shared terms, and as many from the latent space", low=1)
    kernels: str | None = option(None, "kernels between documents, separated by spaces; default: by the index's fields")
    model: str | None = option(None, "a learned model; without it all kernels count alike")
    explain: str | None = option(None, "why this document is similar: each kernel's part")
    plot: str | None = option(None, "with --explain: draw the parts into this PNG or SVG file")
    json: bool = option(False, "print JSON")
    qrels: str | None = option(None, "learn: documents judged relevant to the same topic are similar")
    clicks: str | None = option(None, "learn: documents clicked for the same query are similar")
    pairs: str | None = option(None, "learn: a file of similar documents, two docids a line")
    learner: str = option(
        "best",
        "best, simlistmkl, svm, net, boost, combsum, combmnz or rrf",
        choices=("best", "simlistmkl", "svm", "net", "boost", "combsum", "combmnz", "rrf"),
    )
    limit: int = option(1000, "documents to learn from", low=2)
    random_state: int = option(0, "seed", low=0)
    output: str | None = option(None, "learn: where to save the model")
    java_heap: str | None = option(None, "Java's heap, such as 4g")


EXAMPLES = """examples:
  python -m kernelsearch.similar --index indexes/cran --docid 184
  python -m kernelsearch.similar --index indexes/cran --qrels qrels.txt --output models/cran-similar
  python -m kernelsearch.similar --index indexes/cran --docid 184 --model models/cran-similar --explain 29
  python -m kernelsearch.similar --index indexes/apps --docid maps --kernels "string:field=name cosine number:field=rating\""""


def main(argv: list[str]) -> None:
    """Parses the flags, learns where asked to, and prints similar documents."""
    parser = console.Parser(prog="python -m kernelsearch.similar", description="Finds similar documents.", epilog=EXAMPLES)
    add_flags(parser, SimilarSettings.options)
    settings = read_flags(SimilarSettings, parser.parse_args(argv))
    if settings.index is None:
        parser.error("--index is not given")
    sources = [name for name in ("qrels", "clicks", "pairs") if getattr(settings, name)]
    if len(sources) > 1:
        parser.error(f"--{sources[0]} and --{sources[1]} exclude each other")
    if not sources and settings.docid is None:
        parser.error("--docid is not given")
    if sources and settings.output is None:
        parser.error("--output is not given")
    kernels = settings.kernels.split() if settings.kernels else None
    index = Index(settings.index, java_heap=settings.java_heap, progress=console.progress)
    finder = SimilarDocuments(index, kernels=kernels, model=settings.model, depth=settings.depth)
    if sources:
        truth = truth_from_groups(_groups(settings))
        assert settings.output is not None
        saved = finder.fit(
            truth,
            settings.output,
            learner=settings.learner,
            limit=settings.limit,
            random_state=settings.random_state,
        )
        console.notice(f"{saved}: fitted")
    if settings.docid is not None:
        _show(finder, settings)


def _groups(settings: SimilarSettings) -> Iterable[Iterable[str]]:
    """Sets of documents that belong together, from whatever was given."""
    if settings.qrels:
        return [[docid for docid, grade in one.items() if grade > 0] for one in load_qrels(settings.qrels).values()]
    if settings.pairs:
        found = []
        for number, line in lines(settings.pairs):
            if line.strip():
                pair = line.split("\t") if "\t" in line else line.split()
                if len(pair) != 2:
                    raise InputError(f"{settings.pairs}: line {number}: two docids were expected, {len(pair)} found")
                found.append([docid.strip() for docid in pair])
        return found
    assert settings.clicks is not None
    log = ClickLog(Path(settings.clicks))
    shown = log.shown(np.array([number for number, _ in log.all_queries()], dtype=np.int64), clicked_only=True)
    groups: dict[int, list[str]] = {}
    for query, docid in zip(shown.queries.tolist(), log.docids(shown.docs), strict=True):
        groups.setdefault(query, []).append(docid)
    return list(groups.values())


def _show(finder: SimilarDocuments, settings: SimilarSettings) -> None:
    assert settings.docid is not None
    found = finder.find(settings.docid, settings.top)
    told = finder.explain(settings.docid, settings.explain) if settings.explain else None
    if settings.plot:
        if told is None:
            raise InputError("--plot: draws an explanation; --explain says of which document")
        from kernelsearch.rerankers.fusion.plot import plot

        plot(told, f"{settings.docid} and {settings.explain}", Path(settings.plot))
        console.notice(f"{settings.plot}: drawn")
    if settings.json:
        similar = [{"rank": rank, "docid": docid, "score": score} for rank, (docid, score) in enumerate(found, 1)]
        shown = {"docid": settings.docid, "similar": similar, "explanation": told.to_dict() if told else None}
        print(json.dumps(shown, indent=1, ensure_ascii=False))
        return
    rows = [(rank, docid, f"{score:.4f}") for rank, (docid, score) in enumerate(found, 1)]
    print(text_table(("rank", "docid", "score"), rows, align="><>"))
    if told:
        print("\n" + "\n".join(told.lines()))


if __name__ == "__main__":
    console.run(main)
