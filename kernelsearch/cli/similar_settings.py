"""The options of similar, and the groups of similar documents that they name."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from kernelsearch.cli.flags import require
from kernelsearch.cli.inputs import load_qrels
from kernelsearch.cli.settings import IndexReaderSettings
from kernelsearch.core.files import check_output
from kernelsearch.core.options import option
from kernelsearch.similarity.groups import (
    Groups,
    groups_from_classes,
    groups_from_clicks,
    groups_from_pairs,
    groups_from_qrels,
)

#: Measures of --evaluate, unless others are asked for.
MEASURES = ("P@1", "P@5", "P@10", "AP")


@dataclass(frozen=True, kw_only=True)
class SimilarSettings(IndexReaderSettings):
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
    clicks: str | None = option(None, "learn that documents clicked for the same query are similar: a click log or database")
    pairs: str | None = option(None, "learn from a file of similar documents, two docids per line")
    classes: str | None = option(None, "learn that documents of the same class are similar: a file, docid and class per line")
    evaluate: bool = option(
        False,
        "measure instead of learning: the share of found documents that are similar by --qrels, --clicks, --pairs or --classes",
    )
    measures: tuple[str, ...] = option(MEASURES, "with --evaluate: measures, by their names in ir_measures")
    per_query: bool = option(False, "with --evaluate: print the values of every document as well")
    learner: str = option("best", "learner that combines the kernels: net, simlistmkl, combsum; best: by cross-validation")
    limit: int = option(1000, "largest number of documents to learn from or to evaluate", low=2)
    random_state: int = option(0, "seed for choosing these documents and for the learner", low=0)
    output: str | None = option(None, "folder to save the learned model in")


def read_groups(parser: argparse.ArgumentParser, settings: SimilarSettings) -> Groups | None:
    """The groups of similar documents that `settings` name to learn from; None where nothing is to be learned.

    Flags that can't be given together end the command through `parser`.
    """
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
    check_output("run", settings.run, (settings.docids, settings.qrels, settings.clicks, settings.pairs, settings.classes))
    needed = () if settings.docids or settings.evaluate else ("output" if sources else "docid",)
    require(parser, settings, "index", *needed)
    if settings.qrels:
        return groups_from_qrels(load_qrels(settings.qrels))
    if settings.pairs:
        return groups_from_pairs(settings.pairs)
    if settings.classes:
        return groups_from_classes(settings.classes)
    return groups_from_clicks(settings.clicks) if settings.clicks else None
