"""Which words to add to a query: a convex program that trades their relevance against the risk of taking them together.

Collins-Thompson, "Estimating robust query models using convex optimization" (NIPS 2008):

    min  -c'x + kappa/2 x'(S + gamma diag(r))x
    s.t. support <= x_q <= 1 for the query's terms, 0 <= x <= 1

S is the words' similarity (words that move together are a risk together), r a word's distance from the query, c its relevance.
Optional rows keep the query's aspects in balance, demand that each is covered, and limit how much is added.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.programs.box import minimise_in_box, solve_rows

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpansionProgram:
    """The program's settings; None switches a constraint off.

    - `risk` (kappa): weight of the risk against the relevance
    - `strangeness` (gamma): extra risk of a word far from the query's terms
    - `support`: least value of a query term
    - `balance` (zeta_mu): how far an aspect (a query term and the words like it) may be from the average aspect, in words
    - `coverage` (zeta_k): least amount of new words, weighted by their likeness, for each query term
    - `budget` (B): most new words in sum
    """

    risk: float = 0.01
    strangeness: float = 0.75
    support: float = 0.95
    balance: float | None = None
    coverage: float | None = None
    budget: float | None = None

    def solve(self, relevance: Floats, similarity: Floats, apart: Floats, query_terms: int) -> Floats:
        """The choice x in [0, 1] of each word, shape (words,); the query's terms come first.

        `relevance` c (words,), `similarity` S and distances `apart` (words, words); the first `query_terms` words are
        the query's. Raises Infeasible where the constraints contradict each other.
        """
        words = len(relevance)
        quadratic = self.quadratic(similarity, apart, query_terms)
        lower, upper = np.zeros(words), np.ones(words)
        lower[:query_terms] = self.support
        rows, least = self._rows(similarity, query_terms)
        if not len(rows):
            return minimise_in_box(quadratic, relevance, lower, upper)
        return solve_rows(quadratic, relevance, lower, upper, rows, least)

    def quadratic(self, similarity: Floats, apart: Floats, query_terms: int) -> Floats:
        """kappa (S + gamma diag(r)), shape (words, words); r is the mean distance to the query's terms, relative to its mean.

        `similarity` S, `apart` and `query_terms` are those of `solve`.
        """
        far = apart[:, :query_terms].mean(axis=1) if query_terms else np.zeros(len(apart))
        middle = far.mean() if len(far) else 0.0
        return self.risk * (similarity + self.strangeness * np.diag(far / middle if middle > 0 else far))

    def _rows(self, similarity: Floats, query_terms: int) -> tuple[Floats, Floats]:
        """The optional constraints as rows @ x >= least."""
        words = len(similarity)
        likeness = np.maximum(similarity[:query_terms], 0.0)
        blocks: list[Floats] = []
        least: list[Floats] = []
        if self.balance is not None and query_terms > 1:
            total = likeness.sum(axis=0)
            aspects = np.divide(likeness, total, out=np.zeros_like(likeness), where=total > 0)
            uneven = aspects - aspects.mean(axis=0)
            blocks += [uneven, -uneven]
            least += [np.full(query_terms, -self.balance)] * 2
        if self.coverage is not None:
            fresh = likeness.copy()
            fresh[:, :query_terms] = 0.0
            blocks.append(fresh)
            least.append(np.full(query_terms, self.coverage))
        if self.budget is not None:
            added = np.zeros((1, words))
            added[0, query_terms:] = -1.0
            blocks.append(added)
            least.append(np.array([-self.budget]))
        return (np.vstack(blocks), np.concatenate(least)) if blocks else (np.zeros((0, words)), np.zeros(0))
