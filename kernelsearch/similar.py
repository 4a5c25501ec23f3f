"""`python -m kernelsearch.similar`: documents similar to a document, and learning what makes documents similar."""

from __future__ import annotations

import json
from pathlib import Path

from kernelsearch.api.index import Index
from kernelsearch.api.readable import read_explanation
from kernelsearch.api.results import make_snippet, stored_texts
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, open_index, read_flags
from kernelsearch.cli.similar_settings import SimilarSettings, read_groups
from kernelsearch.core.errors import InputError
from kernelsearch.core.tables import text_table
from kernelsearch.evaluation.measures import parse_measures
from kernelsearch.evaluation.tables import render
from kernelsearch.rerankers.fusion.plot import plot
from kernelsearch.similarity.batch import evaluate_similar, judged_documents, rank_documents
from kernelsearch.similarity.engine import SimilarDocuments, Truth, truth_from_groups
from kernelsearch.similarity.groups import read_docids
from kernelsearch.trec.runs import write_run

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
    groups = read_groups(parser, settings)
    index = open_index(settings, console.progress)
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
    texts = [make_snippet(text, set(), width) for text in stored_texts(index.lucene, rows_of_similar)]
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
