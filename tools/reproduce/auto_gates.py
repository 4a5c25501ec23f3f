"""Decisions per query that `auto` could make about feedback, and what they give on a collection that was left out.

A gate multiplies the weights of feedback, beside the bound on it. A logistic function of what is known of a query chooses
between a quarter and one and a half times `auto`'s weights; its parameters are fitted on all collections but one and measured
on that one, beside the constant gate that is the fitted one's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from kernelsearch.rerankers.auto.bound import FACTOR
from kernelsearch.rerankers.fusion.recipes import CERTAINTY, MATCH, PLAIN, READ_CERTAINTY, READING_WEIGHTS
from tools.reproduce.auto_tables import EVIDENCE, FEEDBACK, SOFT_FEEDBACK, TOPICAL, Condition
from tools.reproduce.pages import markdown_table

Floats = NDArray[np.float64]

LOW, HIGH = 0.25, 1.5
#: Price of a percent lost on other topics in percents gained on topical ones, and the penalty on squared parameters.
PRICE, PENALTY = 3.0, 0.02
MEASURES = (*EVIDENCE, "agreement", "height")
GATES = (*((name,) for name in MEASURES), ("terms", "effective", "cohesion"), MEASURES)


class GatedCondition:
    """A condition with AP per topic at both ends of the gate (`low`, `high`), and the measures of its queries.

    `measures` has shape (topics, MEASURES).
    """

    def __init__(self, condition: Condition) -> None:
        self.condition = condition
        count = len(condition.totals)
        self.low, self.high = (condition.ap(READING_WEIGHTS, np.full(count, share), factor=FACTOR) for share in (LOW, HIGH))
        match = {name: weight for name, weight in READING_WEIGHTS.items() if name not in FEEDBACK}
        by_match, by_feedback = (condition.order(weights)[:, :10] for weights in (match, dict.fromkeys(FEEDBACK, 1.0)))
        agreement = (by_match[:, :, None] == by_feedback[:, None, :]).any(axis=2).mean(axis=1)
        height = condition.whole[:, :, 0].max(axis=1)
        self.measures = np.column_stack([condition.evidence, agreement, height])
        self.measures[:, 0] = np.log1p(self.measures[:, 0])

    def gain(self, share: Floats) -> float:
        """The gain in percent where each query takes `share` of the high gate's AP and the rest of the low one's."""
        return 100 * self.condition.gain((1 - share) * self.low + share * self.high)


def shares(parameters: Floats, gated: GatedCondition, columns: Sequence[int], centre: Floats, scale: Floats) -> Floats:
    """The logistic gate of each query of `gated`, between 0 and 1, shape (topics,).

    Parameters
    ----------
    parameters : the constant, then one weight per column
    gated : the condition
    columns : places in MEASURES of the measures that the gate uses
    centre : mean of every measure, shape (MEASURES,)
    scale : standard deviation of every measure, shape (MEASURES,)
    """
    values = np.clip((gated.measures[:, columns] - centre[columns]) / scale[columns], -3, 3)
    return np.asarray(1 / (1 + np.exp(-(parameters[0] + values @ parameters[1:]))))


def gates_table(conditions: Sequence[Condition]) -> str:
    """Mean gains over `conditions` of every gate, and of the constant gate with the same mean.

    A gate is fitted without the collection of the condition that it is measured on.
    """
    gated_conditions = [GatedCondition(condition) for condition in conditions]
    every = np.concatenate([gated.measures for gated in gated_conditions])
    centre, scale = every.mean(axis=0), every.std(axis=0)
    topical = np.array([gated.condition.kind in TOPICAL for gated in gated_conditions])
    rows = []
    for names in GATES:
        columns = [MEASURES.index(name) for name in names]

        def loss(parameters: Floats, chosen: Sequence[GatedCondition], columns: Sequence[int] = columns) -> float:
            gains = np.array([gated.gain(shares(parameters, gated, columns, centre, scale)) for gated in chosen])
            kinds = np.array([gated.condition.kind in TOPICAL for gated in chosen])
            penalty = PENALTY * float((parameters[1:] ** 2).sum())
            return penalty - float(gains[kinds].mean() + PRICE * gains[~kinds].mean())

        fitted, constant = np.zeros(len(gated_conditions)), np.zeros(len(gated_conditions))
        for corpus in sorted({gated.condition.corpus for gated in gated_conditions}):
            others = [gated for gated in gated_conditions if gated.condition.corpus != corpus]
            parameters = minimize(loss, np.zeros(1 + len(columns)), args=(others,)).x
            mean = float(np.mean([shares(parameters, gated, columns, centre, scale).mean() for gated in others]))
            for place, gated in enumerate(gated_conditions):
                if gated.condition.corpus == corpus:
                    fitted[place] = gated.gain(shares(parameters, gated, columns, centre, scale))
                    constant[place] = gated.gain(np.full(len(gated.low), mean))
        label = ", ".join(names) if len(names) < len(MEASURES) else "all six"
        cells = [f"{part.mean():+.2f}%" for part in (fitted[topical], constant[topical], fitted[~topical], constant[~topical])]
        rows.append([label, *cells, f"{fitted[~topical].min():+.1f}%", f"{constant[~topical].min():+.1f}%"])
    headings = ("topical", "constant", "other topics", "constant", "worst", "constant")
    return markdown_table(("gate by", *headings), rows)


def saturated(limit: float) -> Callable[[Floats], Floats]:
    """z -> `limit` · log(1 + z/`limit`) above 0: large z-scores count less."""

    def shape(values: Floats) -> Floats:
        return np.where(values > 0, limit * np.log1p(np.maximum(values, 0) / limit), values)

    return shape


def variants_table(conditions: Sequence[Condition]) -> str:
    """Variants of the sum that act per query, measured on all `conditions`, beside the bound on feedback."""
    soft = {name: weight for name, weight in READING_WEIGHTS.items() if name not in FEEDBACK[:2]}
    soft |= dict.fromkeys(SOFT_FEEDBACK, READING_WEIGHTS[FEEDBACK[0]])
    rows = []
    variants: tuple[tuple[str, Mapping[str, float], Callable[[Floats], Floats] | None, int], ...] = (
        ("`auto`", READING_WEIGHTS, None, 0),
        ("sharpness 5", soft, None, 0),
        ("feedback times (effective/15)", READING_WEIGHTS, None, 1),
        ("feedback times (effective/15)²", READING_WEIGHTS, None, 2),
        ("z-scores saturated at 3", READING_WEIGHTS, saturated(3.0), 0),
        ("z-scores at most 4", READING_WEIGHTS, lambda values: np.minimum(values, 4.0), 0),
        ("no title", {name: weight for name, weight in READING_WEIGHTS.items() if "title" not in name}, None, 0),
        ("`posterior` of the first stage alone, weight .5", {**READING_WEIGHTS, CERTAINTY: 0.5, READ_CERTAINTY: 0.0}, None, 0),
        (f"`posterior` of `{MATCH}` alone, weight 1", {**READING_WEIGHTS, CERTAINTY: 0.0, READ_CERTAINTY: 1.0}, None, 0),
        ("both `posterior`s twice as much", {**READING_WEIGHTS, CERTAINTY: 0.5, READ_CERTAINTY: 1.0}, None, 0),
        ("the first stage too, weight .5", {**READING_WEIGHTS, PLAIN: 0.5}, None, 0),
        ("BM25 with k1 2, b .75 too, weight .5", {**READING_WEIGHTS, "bm25:k1=2,b=0.75": 0.5}, None, 0),
        ("the title's cosine too, weight .5", {**READING_WEIGHTS, "cosine:field=title": 0.5}, None, 0),
    )
    for label, weights, shape, power in variants:
        gains = []
        for condition in conditions:
            gate = (condition.evidence[:, EVIDENCE.index("effective")] / 15) ** power
            gains.append(100 * condition.gain(condition.ap(weights, gate, shape, FACTOR)))
        topical = np.array([condition.kind in TOPICAL for condition in conditions])
        values = np.array(gains)
        lost = np.minimum(values[~topical], 0).mean()
        cells = [
            f"{values[topical].mean():+.1f}%",
            f"{values[~topical].mean():+.1f}%",
            f"{lost:+.2f}%",
            f"{values.min():+.1f}%",
        ]
        rows.append([label, *cells, str((values < -0.5).sum())])
    return markdown_table(("", "topical", "other topics", "losses among them", "worst", "below -.5%"), rows)
