"""The types that packages exchange: a query with its analysed terms, and a ranked list as two arrays."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Query:
    """A query's text and its analysed terms.

    `terms` are the distinct analysed terms in order of first occurrence, `weights` their counts (or real weights after
    expansion). Terms that the index doesn't have are included; they contribute nothing to scores.
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
        """Returns the bag-of-words query of a `text` with id `qid` from its analysed tokens: a term's weight is its count.

        >>> Query.from_tokens("a tap, a pipe", ["a", "tap", "a", "pipe"]).weights
        (2.0, 1.0, 1.0)
        """
        counts: dict[str, float] = {}
        for token in tokens:
            counts[token] = counts.get(token, 0.0) + 1.0
        return cls(text, tuple(counts), tuple(counts.values()), qid)


@dataclass(frozen=True, eq=False)
class Candidates:
    """A ranked list inside the library: document rows (int32) and scores, best first.

    `fallbacks` has (method, reason) for every method that could not be applied to the query and left its list unchanged.
    """

    docs: NDArray[np.int32]
    scores: NDArray[np.floating]
    fallbacks: tuple[tuple[str, str], ...] = ()

    @property
    def depth(self) -> int:
        """The number of documents in the list."""
        return len(self.docs)

    def top(self, k: int | None) -> Candidates:
        """Returns the best k documents; all for None."""
        return Candidates(self.docs[:k], self.scores[:k], self.fallbacks)
