"""`python -m kernelsearch.similar`: documents similar to a document, and learning what makes documents similar."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api.index import Index
from kernelsearch.api.readable import read_explanation
from kernelsearch.api.snippets import make_snippet
from kernelsearch.cli import console
from kernelsearch.cli.flags import IndexSettings, add_flags, read_flags, require
from kernelsearch.cli.inputs import load_qrels
from kernelsearch.core.errors import InputError
from kernelsearch.core.files import check_output
from kernelsearch.core.options import option
from kernelsearch.core.tables import text_table
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.evaluation.tables import render
from kernelsearch.rerankers.fusion.plot import plot
from kernelsearch.rerankers.fusion.settings import LEARNERS
from kernelsearch.similarity.batch import evaluate_similar, judged_documents, rank_documents
from kernelsearch.similarity.engine import SimilarDocuments, Truth, truth_from_groups
from kernelsearch.similarity.groups import (
    Groups,
    groups_from_classes,
    groups_from_clicks,
    groups_from_pairs,
    groups_from_qrels,
    read_docids,
)
from kernelsearch.trec.runs import write_run

#: Measures of --evaluate, unless others are asked for.
MEASURES = ("P@1", "P@5", "P@10", "AP")


@dataclass(frozen=True, kw_only=True)
class SimilarSettings(IndexSettings):
    """Options of similar."""

    docid: str | None = option(None, "find documents similar to this one")
    docids: str | None = option(None, "file of docids, one per line: find documents similar to each of them")
    run: str | None = option(None, "run file to write the similar documents of --docids to, each docid being a topic")
    top: int = option(10, "number of similar documents to print or to write", low=1)
    depth: int = option(100, "candidates by shared terms, and as many from the latent space", low=1)
    kernels: str | None = option(None, "kernels between documents, separated by blanks; default: by the fields of the index")
    model: str | None = option(None, "folder of a learned model; without it all kernels have equal weight")
    explain: str | None = option(None, "docid of a similar document, to print the contribution of each kernel to its score")
    plot: str | None = option(None, "with --explain: PNG or SVG file to draw the contributions into")
    json: bool = option(False, "print JSON")
    qrels: str | None = option(None, "learn that documents judged relevant to the same topic are similar: a file or irds:NAME")
    clicks: str | None = option(None, "learn that documents clicked for the same query are similar: a click database")
    pairs: str | None = option(None, "learn from a file of similar documents, two docids per line")
    classes: str | None = option(None, "learn that documents of the same class are similar: a file, docid and class per line")
    evaluate: bool = option(
        False,
        "measure instead of learning: the share of found documents that are similar by --qrels, --clicks, --pairs or --classes",
    )
    measures: tuple[str, ...] = option(MEASURES, "with --evaluate: measures, by their names in ir_measures")
    per_query: bool = option(False, "with --evaluate: print the values of every document as well")
    learner: str = option("best", "learner that combines the kernels", choices=LEARNERS)
    limit: int = option(1000, "largest number of documents to learn from or to evaluate", low=2)
    random_state: int = option(0, "seed for choosing these documents and for the learner", low=0)
    output: str | None = option(None, "folder to save the learned model in")


EXAMPLES = """examples:
  python -m kernelsearch.similar --index indexes/cran --docid 184
  python -m kernelsearch.similar --index indexes/cran --qrels qrels.txt --output models/cran-similar
  python -m kernelsearch.similar --index indexes/cran --docid 184 --model models/cran-similar --explain 875
  python -m kernelsearch.similar --index indexes/cran --docids docids.txt --run similar.txt --top 100
  python -m kernelsearch.similar --index indexes/cran --qrels test.txt --evaluate --model models/cran-similar
  python -m kernelsearch.similar --index indexes/apps --docid maps --kernels "string:field=name cosine number:field=rating\""""


def main(argv: list[str]) -> None:
    """Parses the flags, learns where asked to, and prints similar documents."""
    parser = console.Parser(
        prog="python -m kernelsearch.similar",
        description="Finds documents similar to a document of the index.",
        epilog=EXAMPLES,
    )
    add_flags(parser, SimilarSettings.flags)
    settings = read_flags(SimilarSettings, parser.parse_args(argv))
    groups = _read_groups(parser, settings)
    index = settings.open_index(console.progress)
    for flag, docid in (("--docid", settings.docid), ("--explain", settings.explain)):
        if docid is not None:
            index.row(docid, flag)  # before the work
    finder = SimilarDocuments(
        index,
        kernels=settings.kernels.split() if settings.kernels else None,
        model=settings.model,
        depth=settings.depth,
    )
    truth = truth_from_groups(groups) if groups is not None else {}
    if settings.docids or settings.evaluate:
        _many(finder, truth, settings)
    elif settings.output is not None and groups is not None:
        saved = finder.fit(
            truth,
            settings.output,
            learner=settings.learner,
            limit=settings.limit,
            random_state=settings.random_state,
        )
        console.notice(f"{saved}: fitted")
    if settings.docid is not None:
        _print_similar(index, finder, settings.docid, settings)


def _read_groups(parser: argparse.ArgumentParser, settings: SimilarSettings) -> Groups | None:
    """The groups of similar documents to learn from; None where nothing is to be learned. Checks what is given together."""
    sources = [name for name in ("qrels", "clicks", "pairs", "classes") if getattr(settings, name)]
    if len(sources) > 1:
        parser.error(f"--{sources[0]} and --{sources[1]} exclude each other")
    if settings.evaluate and not sources:
        parser.error("--evaluate: needs --qrels, --clicks, --pairs or --classes")
    if settings.evaluate and settings.output:
        parser.error("--evaluate and --output exclude each other: documents that were learned from measure nothing")
    if settings.docids and settings.docid:
        parser.error("--docid and --docids exclude each other")
    if settings.docids and not (settings.run or settings.evaluate):
        parser.error("--docids: needs --run, --evaluate or both")
    if settings.run and not (settings.docids or settings.evaluate):
        parser.error("--run: needs --docids or --evaluate")
    check_output("--run", settings.run, (settings.docids, settings.qrels, settings.clicks, settings.pairs, settings.classes))
    needed = () if settings.docids or settings.evaluate else ("output" if sources else "docid",)
    require(parser, settings, "index", *needed)
    if settings.qrels:
        return groups_from_qrels(load_qrels(settings.qrels))
    if settings.pairs:
        return groups_from_pairs(settings.pairs)
    if settings.classes:
        return groups_from_classes(settings.classes)
    return groups_from_clicks(settings.clicks) if settings.clicks else None


def _many(finder: SimilarDocuments, truth: Truth, settings: SimilarSettings) -> None:
    """Writes the run of many documents, and prints measures of their lists, as far as the flags ask for it."""
    measures = parse_measures(settings.measures)
    if settings.docids:
        docids = read_docids(settings.docids)
    else:
        docids = judged_documents(finder, truth, settings.limit, settings.random_state)
    lists = list(rank_documents(finder, docids, console.progress))
    if settings.run:
        top = settings.top
        written = write_run(settings.run, ((docid, others[:top], scores[:top]) for docid, others, scores in lists))
        console.notice(f"{settings.run}: {written} documents")
    if settings.evaluate:
        evaluation = evaluate_similar(lists, truth, measures)
        if not evaluation.topics:
            raise InputError(f"{settings.docids}: none of these documents has known similar ones")
        if evaluation.unjudged:
            console.notice(f"{len(evaluation.unjudged)} documents have no known similar ones and are left out")
        label, names = settings.model or "equal weights", [str(measure) for measure in measures]
        kind = "json" if settings.json else "text"
        console.show(render(kind, {label: evaluation}, names, None, settings.per_query), end="")


def _print_similar(index: Index, finder: SimilarDocuments, docid: str, settings: SimilarSettings) -> None:
    """Prints the documents similar to `docid`, with an explanation where one is asked for."""
    similar = list(enumerate(finder.find(docid, settings.top), 1))
    rows_of_similar = index.forward.rows_of([other for _, (other, _) in similar])
    header, rows = ("rank", "docid", "score"), [(str(rank), other, f"{score:.4f}") for rank, (other, score) in similar]
    width = console.text_width(header, rows)
    texts = [make_snippet(text or "", set(), width) for text in index.lucene.stored(rows_of_similar, "contents")]
    explanation = finder.explain(docid, settings.explain) if settings.explain else None
    if settings.plot:
        if explanation is None:
            raise InputError("--plot: draws an explanation; name the other document with --explain")
        plot(explanation, f"{docid} and {settings.explain}", Path(settings.plot))
        console.notice(f"{settings.plot}: drawn")
    if settings.json:
        entries = [
            {"rank": rank, "docid": other, "score": score, "text": text}
            for (rank, (other, score)), text in zip(similar, texts, strict=True)
        ]
        record = {"docid": docid, "similar": entries, "explanation": explanation.to_dict() if explanation else None}
        console.show(json.dumps(record, indent=1, ensure_ascii=False))
        return
    table = [(*row, text) for row, text in zip(rows, texts, strict=True)]
    console.show(text_table((*header, "text"), table, align="><><"))
    if explanation:
        reading = read_explanation(index, explanation, "")
        console.show_lines(["", *reading.rewrite(explanation, full=True).lines()])


if __name__ == "__main__":
    console.run(main)
