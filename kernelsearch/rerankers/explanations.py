"""What explains a document's score: contributions that sum to it, as text, as HTML for notebooks and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.ranking_models import effective_documents

#: Feedback documents that the text of an explanation lists.
SHOWN_NEIGHBOURS = 5


@dataclass(frozen=True)
class Contribution:
    """A part of a score: what it comes from, its value, a detail for readers, and the parts that it is the sum of."""

    label: str
    value: float
    detail: str = ""
    parts: tuple[Contribution, ...] = ()


@dataclass(frozen=True, repr=False)
class Explanation:
    """Why a document got its score: contributions that sum to it, and `notes` with further details as plain data for JSON."""

    method: str
    docid: str
    score: float
    contributions: tuple[Contribution, ...]
    notes: dict[str, Any] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """The explanation as indented text."""
        out = [f"{self.method}: {self.docid} scores {self.score:.4f}"]

        def add(parts: Sequence[Contribution], depth: int) -> None:
            for part in parts:
                detail = f"  ({part.detail})" if part.detail else ""
                out.append(f"{'  ' * depth}{part.value:+.4f}  {part.label}{detail}")
                add(part.parts, depth + 1)

        add(self.contributions, 1)
        if decision := self.notes.get("decision"):
            out.append("of the score: " + ", ".join(f"{value:+.4f} from {kind}" for kind, value in decision["parts"].items()))
            out += decision["reasons"]
        if evidence := self.notes.get("evidence"):
            out.append("of the score: " + ", ".join(f"{value:+.4f} from {kind}" for kind, value in evidence.items()))
            nearest = sorted(
                self.notes["feedback"]["documents"], key=lambda near: -near["weight"] * max(near["words"], near["vectors"])
            )
            out.append("feedback documents that it is near, by weight and cosine:")
            out += [
                f"  {near['docid']}  weight {near['weight']:.2f}, words {near['words']:.2f}, vectors {near['vectors']:.2f}"
                for near in nearest[:SHOWN_NEIGHBOURS]
            ]
        return out

    def __repr__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        """The explanation as nested lists, for notebooks."""

        def items(parts: Sequence[Contribution]) -> str:
            return "".join(
                f"<li><code>{part.value:+.4f}</code> {escape(part.label)}"
                + (f" <small>{escape(part.detail)}</small>" if part.detail else "")
                + (f"<ul>{items(part.parts)}</ul>" if part.parts else "")
                + "</li>"
                for part in parts
            )

        title = f"{escape(self.method)}: {escape(self.docid)} scores {self.score:.4f}"
        return f"<p><b>{title}</b></p><ul>{items(self.contributions)}</ul>"

    def to_dict(self) -> dict[str, Any]:
        """The explanation as plain data for JSON."""

        def plain(part: Contribution) -> dict[str, Any]:
            return {"label": part.label, "value": part.value, "detail": part.detail, "parts": [plain(p) for p in part.parts]}

        return {
            "method": self.method,
            "docid": self.docid,
            "score": self.score,
            "contributions": [plain(part) for part in self.contributions],
            "notes": self.notes,
        }


def feedback_note(forward: ForwardIndex, docs: NDArray[np.int32], weights: NDArray[np.floating]) -> dict[str, Any]:
    """What a query was expanded from, for `Explanation.notes`: documents with weights, and how many they amount to.

    `docs` are rows of `forward`, `weights` (documents,) are theirs and sum to 1.
    """
    shown = [
        {"docid": docid, "weight": round(float(weight), 4)}
        for docid, weight in zip(forward.docids.take(docs), weights, strict=True)
    ]
    return {"documents": shown, "effective": round(effective_documents(np.asarray(weights, dtype=np.float64)), 2)}
