"""Which of several candidates to prefer, by their AP per query: the simpler one unless a gain is more than luck."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

#: Standard errors by which a learner must be better than the best input to take its place: the gain of the best of several
#: learners in cross-validation is too high on average, that of an input is not. docs/reproductions/fusion.md shows what other
#: values give, and which one is chosen with a collection left out (`python -m tools.reproduce.fusion --parts conditions`).
INPUT_CAUTION = 1.5


def standard_error(differences: NDArray[np.float64]) -> float:
    """The standard error of the mean of `differences` per query; 0 for a single one."""
    return float(differences.std(ddof=1) / np.sqrt(len(differences))) if len(differences) > 1 else 0.0


def preferred(
    tried: Mapping[str, NDArray[np.float64]], inputs: Sequence[str], caution: float, input_caution: float = INPUT_CAUTION
) -> list[str]:
    """Candidates in the order of preference, from the cross-validated AP per query of each in `tried`.

    Among learners, the first one in the order of `tried` that is no more than `caution` standard errors (of the paired
    difference) below the best: with few queries the highest mean alone is mostly luck. `inputs` are candidates that learn
    nothing: the best of them comes first unless that learner is better by more than `input_caution` standard errors.
    """
    by_mean = sorted(tried, key=lambda name: -tried[name].mean())  # equal means: in the order of the candidates
    known, learned = ([name for name in by_mean if (name in inputs) == is_input] for is_input in (True, False))
    close = [name for name in tried if name in learned and not _gains(tried[learned[0]], tried[name], caution)]
    if known and not (close and _gains(tried[close[0]], tried[known[0]], input_caution)):
        close = [known[0], *close]
    return list(dict.fromkeys((*close, *by_mean)))


def _gains(tried: NDArray[np.float64], other: NDArray[np.float64], caution: float) -> bool:
    """Whether AP per query is higher than that of another candidate by more than `caution` standard errors."""
    difference = tried - other
    return bool(difference.mean() > caution * standard_error(difference))
