"""What the packages exchange: a query with its analysed terms, and a ranked list as two arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Query:
    """A query as typed and as the index sees it.

    `terms` are the distinct analysed terms in order of first occurrence, `weights` their counts (or real weights after
    expansion). Terms unknown to the index are kept; they score nothing.
    """

    text: str
    terms: tuple[str, ...] = ()
    weights: tuple[float, ...] = field(default=())
    qid: str = ""

    def __post_init__(self) -> None:
        if len(self.terms) != len(self.weights):
            raise ValueError(f"{len(self.terms)} terms but {len(self.weights)} weights")

    @classmethod
    def from_tokens(cls, text: str, tokens: list[str], qid: str = "") -> Query:
        """Counts repeated tokens, as a bag-of-words query does."""
        counts: dict[str, float] = {}
        for token in tokens:
            counts[token] = counts.get(token, 0.0) + 1.0
        return cls(text, tuple(counts), tuple(counts.values()), qid)


@dataclass(frozen=True, eq=False)
class Candidates:
    """A ranked list inside the library: document rows (int32) and scores, best first.

    `fallbacks` holds (method, reason) for every method that could not act on the query and kept the list it was given.
    """

    docs: NDArray[np.int32]
    scores: NDArray[np.floating]
    fallbacks: tuple[tuple[str, str], ...] = ()

    @property
    def depth(self) -> int:
        """How many documents the list has."""
        return len(self.docs)

    def top(self, k: int | None) -> Candidates:
        """The best k documents; all of them for None."""
        return Candidates(self.docs[:k], self.scores[:k], self.fallbacks)
