"""What explains a document's score: contributions that sum to it, as text, as HTML for notebooks and as plain data.

Labels and details are strings. Some are references, which a reader can be shown in other words: `Document`, `Term`, `Feature`
and `Symbol`; a `Text` has references in it. Notes hold documents and terms as references, too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from kernelsearch.forward import ForwardIndex
from kernelsearch.kernels.ranking_models import effective_documents

#: Feedback documents that the text of an explanation lists.
SHOWN_NEIGHBOURS = 5


class Document(str):
    """The docid of a document, which has a title."""


class Term(str):
    """A term of the index, often a stem, which has a word."""


class WithMeaning(str):
    """A reference that has its meaning with it; "" where that is not known."""

    meaning: str

    def __new__(cls, text: str, meaning: str = "") -> Self:
        """The reference `text` with its `meaning`."""
        made = super().__new__(cls, text)
        made.meaning = meaning
        return made


class Feature(WithMeaning):
    """The name of a feature."""


class Symbol(WithMeaning):
    """Symbols of a method's paper, or values in its notation."""


class Text(str):
    """Strings and references that are read one after the other, its `pieces`."""

    pieces: tuple[str, ...]

    def __new__(cls, *pieces: str) -> Self:
        """The text of `pieces`."""
        made = super().__new__(cls, "".join(pieces))
        made.pieces = tuple(inner for piece in pieces for inner in pieces_of(piece))
        return made

    @classmethod
    def joined(cls, separator: str, items: Iterable[str]) -> Self:
        """The text of `items`, with `separator` between them."""
        return cls(*[piece for item in items for piece in (separator, item)][1:])


def pieces_of(text: str) -> tuple[str, ...]:
    """The strings and references that `text` consists of."""
    return text.pieces if isinstance(text, Text) else (text,)


#: The names of references in plain data.
REFERENCES: dict[type[str], str] = {Document: "document", Term: "term", Feature: "feature", Symbol: "symbol"}


def _as_data(piece: str) -> str | dict[str, str]:
    """A piece of a text for JSON: a string, or {kind: reference} with the meaning of a reference that has one."""
    kind = REFERENCES.get(type(piece))
    if kind is None:
        return piece
    return {kind: piece} | ({"meaning": piece.meaning} if isinstance(piece, WithMeaning) and piece.meaning else {})


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
        if reranked := self.notes.get("reranked"):
            out.append(f"the first stage of {self.method} is the list that {', '.join(reranked)} reranked")

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
        """The explanation as plain data for JSON.

        Labels and details are strings; `label_pieces` and `detail_pieces` are lists of strings and of references.
        """

        def as_data(part: Contribution) -> dict[str, Any]:
            return {
                "label": part.label,
                "detail": part.detail,
                "value": part.value,
                "label_pieces": [_as_data(piece) for piece in pieces_of(part.label)],
                "detail_pieces": [_as_data(piece) for piece in pieces_of(part.detail)],
                "parts": [as_data(inner) for inner in part.parts],
            }

        return {
            "method": self.method,
            "docid": self.docid,
            "score": self.score,
            "contributions": [as_data(part) for part in self.contributions],
            "notes": self.notes,
        }


def feedback_note(forward: ForwardIndex, docs: NDArray[np.int32], weights: NDArray[np.floating]) -> dict[str, Any]:
    """What a query was expanded from, for `Explanation.notes`: documents with weights, and how many they amount to.

    `docs` are rows of `forward`, `weights` (documents,) are theirs and sum to 1.
    """
    shown = [
        {"docid": Document(docid), "weight": round(float(weight), 4)}
        for docid, weight in zip(forward.docids.take(docs), weights, strict=True)
    ]
    return {"documents": shown, "effective": round(effective_documents(np.asarray(weights, dtype=np.float64)), 2)}
