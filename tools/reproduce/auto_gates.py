"""Decisions per query that `auto` could make about feedback, and what they give on a collection that was left out.

A gate multiplies the weights of feedback. A logistic function of what is known of a query chooses between a quarter and twice
`auto`'s weights; its parameters are fitted on all collections but one and measured on that one, beside the constant gate that
is the fitted one's mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from kernelsearch.rerankers.fusion.recipes import CERTAINTY, MATCH, READING_WEIGHTS
from tools.reproduce.auto_tables import EVIDENCE, FEEDBACK, READ_CERTAINTY, SOFT_FEEDBACK, TOPICAL, Condition
from tools.reproduce.pages import markdown_table

Floats = NDArray[np.float64]

LOW, HIGH = 0.25, 2.0
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
        self.low, self.high = (condition.ap(READING_WEIGHTS, gate=np.full(count, factor)) for factor in (LOW, HIGH))
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


def bounded(order: NDArray[np.int64], match: NDArray[np.int64], factor: float, depth: int = 20) -> NDArray[np.int64]:
    """An order in which the match's r-th document, r up to `depth`, is moved up to place `factor` · r if it is below.

    `order` and `match` have shape (topics, candidates), best first. A later move does not push an earlier one down, because its
    place is lower: no document falls below `factor` times its place by match.
    """
    out = order.copy()
    for row, best in zip(out, match[:, :depth], strict=True):
        ranked = row.tolist()
        for rank, candidate in enumerate(best.tolist(), start=1):
            lowest = int(factor * rank) - 1
            if ranked.index(candidate) > lowest:
                ranked.remove(candidate)
                ranked.insert(lowest, candidate)
        row[:] = ranked
    return out


def bounds_table(conditions: Sequence[Condition], choose: Callable[[Sequence[Condition], Floats, str | None], int]) -> str:
    """Feedback of several weights without and with a bound on how far it moves a document below its place by match.

    `choose` takes the `conditions`, the gains (settings, conditions) and a collection to leave out, and returns a setting; the
    last row has its choices without each condition's collection.
    """
    matches = [condition.order({MATCH: 1.0}) for condition in conditions]
    measured: dict[tuple[str, str], list[Floats]] = {}
    for factor in (0.75, 1.0, 1.5, 2.0):
        orders = [condition.order(READING_WEIGHTS, gate=np.full(len(condition.totals), factor)) for condition in conditions]
        for bound in (None, 3.0, 2.0, 1.5) if factor >= 1 else (None,):
            measured[f"{factor:g}", "none" if bound is None else f"{bound:g}"] = [
                condition.ap_of(order if bound is None else bounded(order, match, bound))
                for condition, order, match in zip(conditions, orders, matches, strict=True)
            ]
    settings = list(measured.values())
    gains = np.array([[condition.gain(ap) for condition, ap in zip(conditions, aps, strict=True)] for aps in settings])
    held_out = [choose(conditions, gains, condition.corpus) for condition in conditions]
    measured["chosen without", "the collection"] = [settings[setting][place] for place, setting in enumerate(held_out)]
    rows = [[*labels, *bound_cells(conditions, aps)] for labels, aps in measured.items()]
    headings = ("bound", "topical", "with long documents and abstracts", "other topics", "losses among them", "worst")
    return markdown_table(("feedback times", *headings, "below -.5%", "hurt", "AP lost"), rows)


def bound_cells(conditions: Sequence[Condition], aps: Sequence[Floats]) -> list[str]:
    """The cells of a row of `bounds_table`; `aps` is AP per topic of each of the `conditions`."""
    topical = np.array([condition.kind in TOPICAL for condition in conditions])
    own = np.array([condition.kind == "topical" for condition in conditions])
    gains = np.array([100 * condition.gain(values) for condition, values in zip(conditions, aps, strict=True)])
    changes = np.concatenate([values - condition.base for condition, values in zip(conditions, aps, strict=True)])
    cells = [f"{gains[part].mean():+.1f}%" for part in (own, topical, ~topical)]
    cells += [f"{np.minimum(gains[~topical], 0).mean():+.2f}%", f"{gains.min():+.1f}%", str((gains < -0.5).sum())]
    return [*cells, str((changes < -0.01).sum()), f"{-changes[changes < 0].sum():.0f}"]


def saturated(limit: float) -> Callable[[Floats], Floats]:
    """z -> `limit` · log(1 + z/`limit`) above 0: large z-scores count less."""

    def shape(values: Floats) -> Floats:
        return np.where(values > 0, limit * np.log1p(np.maximum(values, 0) / limit), values)

    return shape


def variants_table(conditions: Sequence[Condition]) -> str:
    """Variants of the sum that act per query, measured on all `conditions`."""
    soft = {name: weight for name, weight in READING_WEIGHTS.items() if name not in FEEDBACK[:2]}
    soft |= dict.fromkeys(SOFT_FEEDBACK, 1.0)
    certain_match = {name: weight for name, weight in READING_WEIGHTS.items() if name != CERTAINTY} | {READ_CERTAINTY: 0.5}
    length = "bm25:k1=2,b=0.75"
    doubled = {name: weight * (2 if name in FEEDBACK else 1) for name, weight in READING_WEIGHTS.items()}
    rows = []
    variants: tuple[tuple[str, Mapping[str, float], Callable[[Floats], Floats] | None, int], ...] = (
        ("`auto`", READING_WEIGHTS, None, 0),
        ("sharpness 5", soft, None, 0),
        ("feedback twice as much", doubled, None, 0),
        ("feedback times (effective/15)", READING_WEIGHTS, None, 1),
        ("feedback twice as much, times (effective/15)", doubled, None, 1),
        ("feedback times (effective/15)²", READING_WEIGHTS, None, 2),
        ("z-scores saturated at 3", READING_WEIGHTS, saturated(3.0), 0),
        ("z-scores saturated at 3, feedback twice as much", doubled, saturated(3.0), 0),
        ("z-scores at most 4", READING_WEIGHTS, lambda values: np.minimum(values, 4.0), 0),
        ("no title", {name: weight for name, weight in READING_WEIGHTS.items() if "title" not in name}, None, 0),
        ("`posterior` twice as much", {**READING_WEIGHTS, CERTAINTY: 1.0}, None, 0),
        (f"`posterior` of `{MATCH}` too", {**READING_WEIGHTS, READ_CERTAINTY: 0.5}, None, 0),
        (f"`posterior` of `{MATCH}` instead", certain_match, None, 0),
        ("BM25 with k1 2, b .75 too, weight 1", {**READING_WEIGHTS, length: 1.0}, None, 0),
        (f"BM25 with k1 2, b .75 for a quarter of `{MATCH}`", {**READING_WEIGHTS, MATCH: 1.5, length: 0.5}, None, 0),
        ("the title's cosine too, weight .5", {**READING_WEIGHTS, "cosine:field=title": 0.5}, None, 0),
    )
    for label, weights, shape, power in variants:
        gains = []
        for condition in conditions:
            gate = (condition.evidence[:, EVIDENCE.index("effective")] / 15) ** power
            gains.append(100 * condition.gain(condition.ap(weights, gate=gate, shape=shape)))
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
