"""Which words to add to a query: a convex program that trades their relevance against the risk of taking them together.

Collins-Thompson, "Estimating robust query models using convex optimization" (NIPS 2008):

    min  -c'x + kappa/2 x'(S + gamma diag(r))x
    s.t. support <= x_q <= 1 for the query's terms, 0 <= x <= 1

S is the words' similarity (words that move together are a risk together), r a word's distance from the query, c its relevance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.programs.box import minimise_in_box

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ExpansionProgram:
    """The program's settings.

    - `risk` (kappa): weight of the risk against the relevance
    - `strangeness` (gamma): extra risk of a word far from the query's terms
    - `support`: least value of a query term
    """

    risk: float = 0.01
    strangeness: float = 0.75
    support: float = 0.95

    def quadratic(self, similarity: Floats, apart: Floats, query_terms: int) -> Floats:
        """kappa (S + gamma diag(r)), shape (words, words); r is the mean distance to the query's terms, relative to its mean.

        `similarity` S and the distances `apart` have the shape (words, words); the first `query_terms` words are the query's.
        """
        far = apart[:, :query_terms].mean(axis=1) if query_terms else np.zeros(len(apart))
        middle = far.mean() if len(far) else 0.0
        return self.risk * (similarity + self.strangeness * np.diag(far / middle if middle > 0 else far))

    def solve(self, relevance: Floats, quadratic: Floats, query_terms: int) -> Floats:
        """The choice x in [0, 1] of each word, shape (words,); the query's terms come first.

        `relevance` is c (words,), `quadratic` that of the method above, `query_terms` its number of the query's terms.
        """
        every = np.ones(len(relevance))
        lower = np.where(np.arange(len(relevance)) < query_terms, self.support, 0.0)
        return minimise_in_box(quadratic, relevance, lower, every, start=every).x
