"""Why `pert` added its terms, and each term's part of a document's score."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels.perturbation import word_groups
from kernelsearch.kernels.ranking_models import first_stage_term_scores
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.explanations import Contribution, Document, Explanation, Term, Text
from kernelsearch.rerankers.pert.expansion import PertExpansion
from kernelsearch.rerankers.pert.plot import plane

if TYPE_CHECKING:
    from kernelsearch.rerankers.pert.reranker import PerturbationReranker

#: Feedback documents named per term.
SOURCES = 3


@dataclass(frozen=True)
class WordRecord:
    """What is known of one term of an expansion, as the notes of an explanation have it.

    `probability` is its relevance model's, `relevance` the program's gain, `risk` its share of the program's risk, `choice` the
    program's value, `weight` its weight in the expansion; `documents` are the feedback documents it comes from.
    """

    word: Term
    query_term: bool
    group: int
    probability: float
    relevance: float
    risk: float
    choice: float
    weight: float
    documents: list[Document] = field(default_factory=list)


def explain(
    reranker: PerturbationReranker, query: Query, expanded: Query, expansion: PertExpansion | None, doc: int, context: Context
) -> Explanation:
    """The score of the document in row `doc` by term of the `expanded` query.

    The notes hold the expanded query and, of the `expansion` that it comes from, every term's record and, with a perturbation
    kernel, its coordinates in the plot. `reranker` is the method, `query` the query as it was, `context` that of its `explain`.
    """
    index = reranker.index.forward
    records: list[WordRecord] = []
    notes: dict[str, Any] = {"expanded_query": dict(zip(expanded.terms, expanded.weights, strict=True)), "words": []}
    if expansion is not None:
        records = word_records(index, expansion, grouped(expansion, reranker.groups))
        words: list[dict[str, Any]] = [asdict(record) for record in records]
        notes["words"] = words
        if expansion.choice.coordinates.size:
            points, axes = plane(expansion)
            notes["axes"] = list(axes)
            for word, (x, y) in zip(words, points.tolist(), strict=True):
                word.update(x=x, y=y)
    rows = np.array([doc], dtype=np.int32)
    parts = first_stage_term_scores(index, context.model, index.term_ids(expanded.terms), expanded.weights, rows)[0].astype(
        np.float64
    )
    reasons = contributions(query, expanded, parts, records)
    total = float(sum(reason.value for reason in reasons))
    return Explanation(reranker.name, index.docids[doc], total, reasons, notes)


def grouped(expansion: PertExpansion, groups: int) -> NDArray[np.int64]:
    """At most `groups` groups of the terms of `expansion` by the kernel's distances, shape (words,); one without a kernel."""
    apart = expansion.choice.apart
    return word_groups(apart, groups) if len(apart) else np.zeros(len(expansion.words), dtype=np.int64)


def word_records(forward: ForwardIndex, expansion: PertExpansion, groups: NDArray[np.int64]) -> list[WordRecord]:
    """The records of the terms of `expansion` on `forward`, in its order; `groups` (words,) are numbered from 0."""
    frequencies = forward.term_frequencies(expansion.docs, expansion.terms)
    lengths = np.maximum(np.asarray(forward.lengths[expansion.docs], dtype=np.float64), 1.0)
    shares = expansion.document_weights[:, None] * frequencies / lengths[:, None]
    order = np.argsort(-shares, axis=0, kind="stable")[:SOURCES]
    docids = list(map(Document, forward.docids.take(expansion.docs)))
    risk = expansion.choice.risk
    return [
        WordRecord(
            word=Term(word),
            query_term=number < expansion.query_terms,
            group=int(groups[number]) + 1,
            probability=float(expansion.p[number]),
            relevance=float(expansion.gain[number]),
            risk=float(risk[number]),
            choice=float(expansion.choice.x[number]),
            weight=float(expansion.weights[number]),
            documents=[docids[row] for row in order[:, number] if frequencies[row, number] > 0],
        )
        for number, word in enumerate(expansion.words)
    ]


def contributions(
    query: Query, expanded: Query, parts: NDArray[np.floating], records: list[WordRecord]
) -> tuple[Contribution, ...]:
    """A document's score by term, `parts` (terms of `expanded`,): the terms of `query`, then the added terms by group.

    `records` are those of `word_records`, [] for expanded queries from a file.
    """
    record_of: dict[str, WordRecord] = {record.word: record for record in records}
    own: list[Contribution] = []
    added: dict[int, list[Contribution]] = {}
    for word, weight, value in zip(expanded.terms, expanded.weights, parts.tolist(), strict=True):
        record = record_of.get(word)
        contribution = Contribution(Term(word), value, _detail(weight, record))
        if word in query.terms:
            own.append(contribution)
        elif value:
            added.setdefault(record.group if record else 0, []).append(contribution)
    sums = [_sum("the query's terms", own)]
    by_weight = sorted(records, key=lambda record: -record.weight)
    for group in sorted(added):
        strongest = next((record.word for record in by_weight if record.group == group), "")
        sums.append(_sum(Text(f"added words of group {group} (", strongest, ")") if group else "added words", added[group]))
    return tuple(sums)


def _sum(label: str, parts: list[Contribution]) -> Contribution:
    ordered = tuple(sorted(parts, key=lambda part: -part.value))
    return Contribution(label, float(sum(part.value for part in ordered)), parts=ordered)


def _detail(weight: float, record: WordRecord | None) -> str:
    if record is None:
        return f"weight {weight:.4f}"
    values = f"weight {weight:.4f}, relevance {record.relevance:.2f}, risk {record.risk:.4f}, group {record.group}"
    return Text(values, ", from ", Text.joined(", ", record.documents)) if record.documents else values
