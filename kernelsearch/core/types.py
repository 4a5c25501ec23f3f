"""What travels between the rooms: a query with its analysed terms, and a ranked list as two arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

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


class Candidates(NamedTuple):
    """A ranked list inside the house: document rows (int32) and scores, best first."""

    docs: NDArray[np.int32]
    scores: NDArray[np.floating]

    @property
    def depth(self) -> int:
        return len(self.docs)
