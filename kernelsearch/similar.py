"""`python -m kernelsearch.similar`: documents similar to a document, and learning what makes documents similar."""

from __future__ import annotations

import argparse
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from kernelsearch.api.snippets import make_snippet
from kernelsearch.cli import console
from kernelsearch.cli.flags import IndexSettings, add_flags, read_flags, require
from kernelsearch.cli.inputs import load_qrels
from kernelsearch.core.errors import InputError
from kernelsearch.core.options import option
from kernelsearch.core.tables import text_table
from kernelsearch.rerankers.fusion.plot import plot
from kernelsearch.similarity.engine import SimilarDocuments, truth_from_groups
from kernelsearch.similarity.groups import Groups, groups_from_clicks, groups_from_pairs, groups_from_qrels


@dataclass(frozen=True, kw_only=True)
class SimilarSettings(IndexSettings):
    """Options of similar."""

    docid: str | None = option(None, "find documents similar to this one")
    top: int = option(10, "number of similar documents to print", low=1)
    depth: int = option(100, "candidates by shared terms, and as many from the latent space", low=1)
    kernels: str | None = option(None, "kernels between documents, separated by blanks; default: by the fields of the index")
    model: str | None = option(None, "folder of a learned model; without it all kernels have equal weight")
    explain: str | None = option(None, "docid of a similar document, to print the contribution of each kernel to its score")
    plot: str | None = option(None, "with --explain: PNG or SVG file to draw the contributions into")
    json: bool = option(False, "print JSON")
    qrels: str | None = option(None, "learn that documents judged relevant to the same topic are similar: a file or irds:NAME")
    clicks: str | None = option(None, "learn that documents clicked for the same query are similar: a click database")
    pairs: str | None = option(None, "learn from a file of similar documents, two docids per line")
    learner: str = option(
        "best",
        "learner that combines the kernels",
        choices=("best", "simlistmkl", "svm", "net", "boost", "combsum", "combmnz", "rrf"),
    )
    limit: int = option(1000, "largest number of documents to learn from", low=2)
    random_state: int = option(0, "seed for choosing the documents to learn from and for the learner", low=0)
    output: str | None = option(None, "folder to save the learned model in")


EXAMPLES = """examples:
  python -m kernelsearch.similar --index indexes/cran --docid 184
  python -m kernelsearch.similar --index indexes/cran --qrels qrels.txt --output models/cran-similar
  python -m kernelsearch.similar --index indexes/cran --docid 184 --model models/cran-similar --explain 29
  python -m kernelsearch.similar --index indexes/apps --docid maps --kernels "string:field=name cosine number:field=rating\""""


def main(argv: list[str]) -> None:
    """Parses the flags, learns where asked to, and prints similar documents."""
    parser = console.Parser(prog="python -m kernelsearch.similar", description="Finds similar documents.", epilog=EXAMPLES)
    add_flags(parser, SimilarSettings.flags)
    settings = read_flags(SimilarSettings, parser.parse_args(argv))
    groups = _read_groups(parser, settings)
    finder = SimilarDocuments(
        settings.open_index(console.progress),
        kernels=settings.kernels.split() if settings.kernels else None,
        model=settings.model,
        depth=settings.depth,
    )
    if groups is not None and settings.output is not None:
        saved = finder.fit(
            truth_from_groups(groups),
            settings.output,
            learner=settings.learner,
            limit=settings.limit,
            random_state=settings.random_state,
        )
        console.notice(f"{saved}: fitted")
    if settings.docid is not None:
        _print_similar(finder, settings.docid, settings)


def _read_groups(parser: argparse.ArgumentParser, settings: SimilarSettings) -> Groups | None:
    """The groups of similar documents to learn from; None where nothing is to be learned. Checks what is given together."""
    sources = [name for name in ("qrels", "clicks", "pairs") if getattr(settings, name)]
    if len(sources) > 1:
        parser.error(f"--{sources[0]} and --{sources[1]} exclude each other")
    require(parser, settings, "index", "output" if sources else "docid")
    if settings.qrels:
        return groups_from_qrels(load_qrels(settings.qrels))
    if settings.pairs:
        return groups_from_pairs(settings.pairs)
    return groups_from_clicks(settings.clicks) if settings.clicks else None


def _print_similar(finder: SimilarDocuments, docid: str, settings: SimilarSettings) -> None:
    """Prints the documents similar to `docid`, with an explanation where one is asked for."""
    similar = list(enumerate(finder.find(docid, settings.top), 1))
    rows_of_similar = finder.index.forward.rows_of([other for _, (other, _) in similar])
    width = max(40, shutil.get_terminal_size((120, 20)).columns - 40)
    texts = [make_snippet(text or "", set(), width) for text in finder.index.lucene.stored(rows_of_similar, "contents")]
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
    rows = [(rank, other, f"{score:.4f}", text) for (rank, (other, score)), text in zip(similar, texts, strict=True)]
    console.show(text_table(("rank", "docid", "score", "text"), rows, align="><><"))
    if explanation:
        console.show("\n" + "\n".join(explanation.lines()))


if __name__ == "__main__":
    console.run(main)
