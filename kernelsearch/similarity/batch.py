"""Similar documents of many documents: their ranked lists, and measures of these by known similar documents."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.progress import Progress, silent
from kernelsearch.evaluation.measures import Evaluation, Measure, evaluate
from kernelsearch.similarity.engine import SimilarDocuments, Truth
from kernelsearch.trec.runs import RankedList


def rank_documents(finder: SimilarDocuments, docids: Sequence[str], progress: Progress = silent) -> Iterator[RankedList]:
    """Yields each document's id and the ids and scores of its candidates, most similar first.

    `docids` are ranked by `finder`; `progress` gets the progress. Raises InputError, before the first is ranked, for a docid
    that the index doesn't have.
    """
    rows = [finder.index.row(docid, "docids") for docid in docids]
    with progress("similar documents", total=len(rows), unit="document") as bar:
        for docid, row in zip(docids, rows, strict=True):
            ranked = finder.ranked(row)
            yield docid, finder.index.forward.docids.take(ranked.docs), ranked.scores.tolist()
            bar.update()


def judged_documents(finder: SimilarDocuments, truth: Truth, limit: int, random_state: int = 0) -> list[str]:
    """Documents of the index of `finder` with similar ones by `truth`, at most `limit` of them, drawn with `random_state`.

    Raises InputError where the index has none of them.
    """
    names = sorted(truth)
    present = [name for name, row in zip(names, finder.index.forward.rows_of(names).tolist(), strict=True) if row >= 0]
    if not present:
        raise InputError(
            f"none of the {len(names)} documents with similar ones is in {finder.index.name}", option=Flag("evaluate")
        )
    if len(present) <= limit:
        return present
    chosen = np.random.default_rng(random_state).choice(len(present), limit, replace=False)
    return [present[number] for number in np.sort(chosen)]


def evaluate_similar(lists: Sequence[RankedList], truth: Truth, measures: Sequence[Measure]) -> Evaluation:
    """The `measures` of ranked lists whose topics are documents; relevant are the documents known to be similar (`truth`).

    Documents without known similar ones don't count.
    """
    qrels = {docid: dict.fromkeys(sorted(truth[docid]), 1) for docid, _, _ in lists if truth.get(docid)}
    # Places instead of scores: lists are ordered already, with ties in docid order.
    run = {docid: [(other, -float(place)) for place, other in enumerate(others)] for docid, others, _ in lists}
    return evaluate(qrels, run, measures)
