"""A method of somebody else's: the first stage's score plus a reward per query term that occurs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from kernelsearch.core.options import Settings, option
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct, Contribution, Explanation, Reranker
from kernelsearch.rerankers.registry import Method


@dataclass(frozen=True, kw_only=True)
class CoverageSettings(Settings):
    """Options of `coverage`."""

    owner: ClassVar[str] = "coverage"

    reward: float = option(1.0, "reward per query term that occurs in a document", low=0)


METHOD = Method(
    "coverage",
    "first-stage score plus a reward per query term that occurs",
    CoverageSettings,
    "coverage_reranker:Coverage",
)


class Coverage(Reranker[CoverageSettings]):
    """Rewards documents that contain many different terms of the query."""

    method = METHOD

    def score(self, query, candidates, context=DEFAULT_CONTEXT):
        terms = self.index.forward.term_ids(query.terms)
        if len(terms) < 2:
            raise CannotAct("a query of one term")
        present = self.index.forward.term_frequencies(candidates.docs, terms) > 0
        return candidates.scores + self.settings.reward * present.sum(axis=1)

    def explain(self, query, candidates, doc, context=DEFAULT_CONTEXT):
        place = int(np.flatnonzero(candidates.docs == doc)[0])
        total, first = float(self.score(query, candidates)[place]), float(candidates.scores[place])
        parts = (Contribution("first stage", first), Contribution("terms present", total - first))
        return Explanation(self.name, self.index.forward.docids[doc], total, parts)
