"""By how many standard errors learned weights must be better than the best input, chosen with a collection left out.

`fusion_conditions` saves what every candidate gives in cross-validation over the training topics and on held-out topics, so
that any rule of choice can be applied afterwards. `python -m tools.reproduce.fusion --parts conditions` writes the section.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.ranking.preference import INPUT_CAUTION, preferred
from tools.reproduce.fusion_conditions import WORDS
from tools.reproduce.pages import markdown_table

Tried = Mapping[str, NDArray[np.float64]]

CAUTIONS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
#: Among the rules whose mean is within TOLERANCE percent of the best, the one that loses least is chosen, as for `auto`.
TOLERANCE = 1.0


def among_equals(tried: Tried) -> str:
    """A rule without the parameter: inputs and learners alike, the first that is half a standard error below the best.

    `tried` has AP per training topic by candidate, in cross-validation; the name of the chosen candidate is returned.
    """
    return preferred(tried, (), WORDS.learner().caution)[0]


def cautious(caution: float) -> Callable[[Tried], str]:
    """The rule of `Best` with `caution` standard errors: a function that chooses among candidates as `among_equals` does."""
    learner = WORDS.learner()
    return lambda tried: preferred(tried, learner.inputs, learner.caution, caution)[0]


RULES: dict[str, Callable[[Tried], str]] = {f"{caution:g}": cautious(caution) for caution in CAUTIONS}
RULES["inputs as learners"] = among_equals


#: What `fusion` does: the rule of `Best`, and an input for topics that are far from the training topics.
DIVIDED = f"{INPUT_CAUTION:g}, far topics by an input"


def gains(values: Mapping[str, Any], rule: Callable[[Tried], str]) -> tuple[float, float]:
    """What a `rule` chooses, in percent against the better of BM25 and auto: as the topics are, and as new.

    `values` are the results of a condition.
    """
    related: list[float] = []
    as_new: list[float] = []
    for candidates in values["candidates"]:
        name = rule({label: np.array(aps) for label, aps in candidates["tried"].items()})
        related += candidates["fusion"][name]
        as_new += candidates["as new"][name]
    return percents(values, related, as_new)


def percents(values: Mapping[str, Any], related: Sequence[float], as_new: Sequence[float]) -> tuple[float, float]:
    """MAP of topics as they are (AP per topic `related`) and `as_new`, in percent against the better of BM25 and auto.

    `values` are the results of a condition.
    """
    better = max(np.mean(values["BM25"]), np.mean(values["auto"]))
    return 100 * float(np.mean(related) / better - 1), 100 * float(np.mean(as_new) / better - 1)


def corpus_of(condition: str) -> str:
    """The collection of a `condition`: "scifact" of "scifact train -> scifact"."""
    return condition.rpartition(" -> ")[2].partition(", ")[0]


def chosen_rule(table: NDArray[np.float64], seen: NDArray[np.bool_]) -> int:
    """The number of the rule that the procedure chooses on the conditions that `seen` (conditions,) marks.

    `table` (rules, conditions) has percents against the better of BM25 and auto.
    """
    means, losses = table[:, seen].mean(axis=1), np.minimum(table[:, seen], 0).mean(axis=1)
    return int(np.argmax(np.where(means >= means.max() - TOLERANCE, losses, -np.inf)))


def caution_table(measured: Mapping[str, Mapping[str, Any]]) -> str:
    """A row per condition: what each rule gives, and the rule chosen without the condition's collection with what it gives.

    The last rule is what `fusion` does. `measured` has the results of the conditions by name.
    """
    cells = {
        name: [
            *(gains(values, rule) for rule in RULES.values()),
            percents(values, values["fusion"], values["as new"]),
        ]
        for name, values in measured.items()
    }
    table = np.array([[np.mean(cell) for cell in row] for row in cells.values()]).T
    corpora, labels = np.array([corpus_of(name) for name in cells]), [*RULES, DIVIDED]
    rows = []
    for name, row in cells.items():
        held_out = chosen_rule(table, corpora != corpus_of(name))
        shown = [" / ".join(f"{round(value, 1) + 0.0:+.1f}" for value in cell) for cell in row]
        rows.append([name, *shown, f"{labels[held_out]}: {shown[held_out]}"])
    everything = labels[chosen_rule(table, np.ones(len(cells), dtype=bool))]
    rows.append(["mean of both", *(f"{mean:+.2f}" for mean in table.mean(axis=1)), f"all seen: {everything}"])
    return markdown_table(("standard errors", *labels, "chosen without the collection"), rows)
