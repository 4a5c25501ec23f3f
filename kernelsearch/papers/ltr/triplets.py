"""Linear similarity from triplets (query, better, worse) by other losses than that of `SimTripletNet`.

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation", section
2.3: SimTripletBoost (Eq. 4, exponential loss), SimTripletSVM (Eq. 5, hinge loss).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from kernelsearch.learning.ranking.triplets import TripletLearner
from kernelsearch.papers.ltr.hinge import minimise_hinge

Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, eq=False, repr=False)
class SimTripletBoost(TripletLearner):
    """Exponential loss by boosting: each round strengthens the kernel that best separates the triplets still wrong.

    `rounds` is their number, `learning_rate` the share of the best step that each takes.
    """

    name = "boost"

    rounds: int = 300
    learning_rate: float = 0.1

    def _solve(self, differences: Floats, weights: Floats) -> Floats:
        omega = np.zeros(differences.shape[1])
        columns = np.asfortranarray(differences)
        squares = columns**2
        log_weights, margins = np.log(weights), np.zeros(len(weights))
        for _ in range(self.rounds):
            hard = log_weights - margins
            hard = np.exp(hard - hard.max())
            edge = hard @ columns
            curvature = hard @ squares
            # The Newton step of each kernel alone; a weight may shrink again, but not below 0 unless it may have a sign.
            step = np.divide(edge, curvature, out=np.zeros_like(edge), where=curvature > 0)
            step *= self.learning_rate
            if not self.signed:
                step = np.maximum(step, -omega)
            best = int(np.argmax(step * edge))
            if step[best] * edge[best] <= 0:
                break
            omega[best] += step[best]
            margins += step[best] * columns[:, best]
        return omega


@dataclass(kw_only=True, eq=False, repr=False)
class SimTripletSVM(TripletLearner):
    """Hinge loss with an L2 penalty: ½|ω|² + C·ξ, by an interior-point method.

    ξ is the weighted mean of the triplets' losses. The objective is at most the share `tolerance` above its minimum, unless
    `iterations` end before, with a warning.
    """

    name = "svm"

    C: float = 10.0
    tolerance: float = 1e-6
    iterations: int = 200

    def _solve(self, differences: Floats, weights: Floats) -> Floats:
        omega, gap = minimise_hinge(
            differences, self.C * weights, signed=self.signed, tolerance=self.tolerance, iterations=self.iterations
        )
        if gap > self.tolerance:
            logger.warning("svm: after %d iterations the objective may be %.1e above its minimum", self.iterations, gap)
        return omega
