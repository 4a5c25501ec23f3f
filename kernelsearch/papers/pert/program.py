"""The expansion program with the constraints of its paper: balance, coverage and a budget.

Collins-Thompson, "Estimating robust query models using convex optimization" (NIPS 2008).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kernelsearch.learning.programs.expansion import ExpansionProgram, Floats
from kernelsearch.papers.pert.active_set import solve_program

#: Added to the diagonal, which the active-set method must factor, as a share of its mean.
RIDGE = 1e-9
#: Rows count as satisfied within this distance.
TOLERANCE = 1e-9


@dataclass(frozen=True)
class ConstrainedProgram(ExpansionProgram):
    """The program with rows beside its box; None leaves a constraint out.

    - `balance` (zeta_mu): how far an aspect (a query term and the words like it) may be from the average aspect, in words
    - `coverage` (zeta_k): least amount of new words, weighted by their likeness, for each query term
    - `budget` (B): most new words in sum
    """

    balance: float | None = None
    coverage: float | None = None
    budget: float | None = None

    def solve_with_rows(self, relevance: Floats, quadratic: Floats, query_terms: int, similarity: Floats) -> Floats:
        """As `solve`, subject to the rows that `similarity` (words, words) gives. Raises Infeasible where they contradict.

        `relevance`, `quadratic` and `query_terms` are those of `solve`, whose point is the answer where it satisfies the rows.
        """
        x = self.solve(relevance, quadratic, query_terms)
        rows, least = self.rows(similarity, query_terms)
        if (rows @ x >= least - TOLERANCE).all():
            return x
        size = len(relevance)
        firm = quadratic + RIDGE * max(1.0, float(np.trace(quadratic)) / size) * np.eye(size)
        lower = np.where(np.arange(size) < query_terms, self.support, 0.0)
        conditions = np.vstack([np.eye(size), -np.eye(size), rows])
        x = solve_program(firm, relevance, conditions, np.concatenate([lower, -np.ones(size), least]))
        return np.clip(x, lower, 1.0)

    def rows(self, similarity: Floats, query_terms: int) -> tuple[Floats, Floats]:
        """The constraints as rows @ x >= least: (rows, words) and (rows,), for `similarity` and `query_terms` as above."""
        likeness = np.maximum(similarity[:query_terms], 0.0)
        blocks: list[Floats] = [np.zeros((0, len(similarity)))]
        least: list[Floats] = [np.zeros(0)]
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
            blocks.append(np.where(np.arange(len(similarity)) < query_terms, 0.0, -1.0)[None, :])
            least.append(np.array([-self.budget]))
        return np.vstack(blocks), np.concatenate(least)
