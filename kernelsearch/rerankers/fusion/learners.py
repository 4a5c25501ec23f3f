"""The learner of a fusion by name: how it is made, fitted and reported."""

from __future__ import annotations

import logging

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.execution import Engine
from kernelsearch.learning.ranking.choose import LEARNERS, Best
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.simlistmkl import SimListMKL

Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)


def make_learner(name: str, *, normalise: str, folds: int = 5, random_state: int = 0) -> Learner:
    """An unfitted learner: `best`, which chooses by cross-validation over `folds`, or one of LEARNERS.

    `normalise` is the learner's own normalisation of features ("z", "minmax" or "none"), for learners that have one;
    `random_state` is the seed, for learners that draw.
    """
    if name == "best":
        return Best(folds=folds, normalise=normalise, random_state=random_state)
    learner_class = LEARNERS[name]
    known = learner_class().get_params()
    parameters = {"normalise": normalise, "random_state": random_state}
    return learner_class(**{key: value for key, value in parameters.items() if key in known})


def fit_learner(learner: Learner, X: Floats, y: Floats, qid: NDArray[np.generic], engine: Engine | None = None) -> Learner:
    """Fits a learner on X (rows, features), y (rows,) and qid (rows,), and returns it.

    On the Dask workers of an engine where the learner can use them (the trees of simlistmkl).
    """
    if engine is None or engine.client is None or not isinstance(learner, SimListMKL):
        return learner.fit(X, y, qid)
    return learner.fit(X, y, qid, client=engine.client)


def log_choice(learner: Learner, method: str, trained_on: str) -> None:
    """Logs which learner `best` chose, with the cross-validated MAP of all it tried; nothing for other learners.

    `trained_on` describes the training data, such as "40 queries".
    """
    if isinstance(learner, Best):
        scores = ", ".join(f"{name} {score:.4f}" for name, score in learner.scores_.items())
        logger.info("%s: chose %s on %s (cross-validated MAP: %s)", method, learner.chosen_.name, trained_on, scores)
