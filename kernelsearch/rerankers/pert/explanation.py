"""Why an expansion took its words, and what each did to a document's score."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.types import Query
from kernelsearch.forward.index import ForwardIndex
from kernelsearch.kernels.perturbation import word_groups
from kernelsearch.rerankers.base import Contribution
from kernelsearch.rerankers.pert.expansion import Expansion

#: Feedback documents named for a word.
SOURCES = 3


def grouped(expansion: Expansion, groups: int) -> NDArray[np.int64]:
    """The words' groups in the kernel's distances, shape (words,); one group where the method has no kernel."""
    return word_groups(expansion.apart, groups) if len(expansion.apart) else np.zeros(len(expansion.words), dtype=np.int64)


def word_records(index: ForwardIndex, expansion: Expansion, groups: NDArray[np.int64]) -> list[dict[str, Any]]:
    """Each word's relevance, risk, group and source documents, as plain data, in the expansion's order."""
    frequencies = index.term_frequencies(expansion.docs, expansion.terms)
    lengths = np.maximum(np.asarray(index.lengths[expansion.docs], dtype=np.float64), 1.0)
    shares = expansion.document_weights[:, None] * frequencies / lengths[:, None]
    order = np.argsort(-shares, axis=0, kind="stable")[:SOURCES]
    docids = index.docids.take(expansion.docs)
    risk = expansion.risk
    return [
        {
            "word": word,
            "query_term": place < expansion.query_terms,
            "group": int(groups[place]) + 1,
            "probability": float(expansion.p[place]),
            "relevance": float(expansion.gain[place]),
            "risk": float(risk[place]),
            "choice": float(expansion.choice[place]),
            "weight": float(expansion.weights[place]),
            "documents": [docids[row] for row in order[:, place] if frequencies[row, place] > 0],
        }
        for place, word in enumerate(expansion.words)
    ]


def contributions(
    query: Query, expanded: Query, parts: NDArray[np.floating], records: list[dict[str, Any]]
) -> tuple[Contribution, ...]:
    """One document's score by word, `parts` (terms of `expanded`,): the query's own terms, then the added words by group."""
    known = {record["word"]: record for record in records}
    own: list[Contribution] = []
    added: dict[int, list[Contribution]] = {}
    for word, weight, value in zip(expanded.terms, expanded.weights, parts.tolist(), strict=True):
        record = known.get(word)
        one = Contribution(word, value, _detail(weight, record))
        if word in query.terms:
            own.append(one)
        elif value:
            added.setdefault(record["group"] if record else 0, []).append(one)
    blocks = [_block("the query's terms", own)]
    for group in sorted(added):
        strongest = next((record["word"] for record in _by_weight(records) if record["group"] == group), "")
        blocks.append(_block(f"added words of group {group} ({strongest})" if group else "added words", added[group]))
    return tuple(blocks)


def _by_weight(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(records, key=lambda record: -record["weight"])


def _block(label: str, parts: list[Contribution]) -> Contribution:
    ordered = tuple(sorted(parts, key=lambda part: -part.value))
    return Contribution(label, float(sum(part.value for part in ordered)), parts=ordered)


def _detail(weight: float, record: dict[str, Any] | None) -> str:
    if record is None:
        return f"weight {weight:.4f}"
    source = f", from {', '.join(record['documents'])}" if record["documents"] else ""
    return (
        f"weight {weight:.4f}, relevance {record['relevance']:.2f}, risk {record['risk']:.4f}, group {record['group']}{source}"
    )
