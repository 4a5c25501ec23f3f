"""The learner of a fusion by name: how it is made, fitted and reported."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.far_queries import FarQueries
from kernelsearch.learning.ranking.fusers import CombSUM, Learner
from kernelsearch.learning.ranking.registry import LEARNER, LEARNERS, learner_class
from kernelsearch.learning.ranking.triplets import SimTripletNet
from kernelsearch.rerankers.fusion.recipes import MATCH, POSITIONS

Floats = NDArray[np.float64]

logger = logging.getLogger(__name__)


def make_learner(
    name: str,
    *,
    folds: int = 5,
    candidates: Sequence[str] = tuple(LEARNERS),
    random_state: int = 0,
    option: Flag = LEARNER,
    **parameters: Any,
) -> Learner:
    """An unfitted learner: `best`, which chooses among `candidates` by cross-validation over `folds`, or another by name.

    `random_state` is the seed, and `parameters` are further ones by name; a learner gets those that it has. Raises OptionError
    for an unknown name, which is the value of `option`.
    """
    values = {"random_state": random_state, **parameters}
    made = {}
    for kind in candidates if name == "best" else (name,):
        learner = learner_class(kind, option)
        known = learner().get_params()
        made[kind] = learner(**{key: value for key, value in values.items() if key in known})
    return Best(candidates=made, folds=folds, random_state=random_state) if name == "best" else made[name]


#: Penalties of `net` that cross-validation chooses among, from the strongest pull towards auto's weights to the weakest.
PENALTIES = (1.0, 0.1, 0.01, 0.001)
#: auto's weights as weights of `net`: their sum is about that of `net`'s own start, so that margins have its scale.
ANCHOR_SCALE = 0.3
#: With fewer training queries nothing is learned: with 12 to 16 the chosen learner is below auto in a quarter of the draws
#: of topics or more, with 20 to 28 in 4 of 48 (`python -m tools.reproduce.fusion --parts few`, docs/reproductions/fusion.md).
ENOUGH_QUERIES = 20


def anchored_learner(recipe: Sequence[str], weights: Mapping[str, float], *, folds: int = 5, random_state: int = 0) -> Best:
    """Chooses by cross-validation among the first stage, the match, known weights, and `net` pulled towards the known weights.

    What is chosen can't do much worse than the first stage or the known weights on queries like those of the training: both are
    among the candidates, and a learner takes their place only where its gain is more than luck. The match with the query alone
    is the best of these for queries with one right answer, on which feedback loses. `recipe` names the columns, which are
    normalised already; `weights` are the known weights by feature. `folds` are those of the cross-validation, `random_state` is
    the seed.
    """
    known = [weights.get(name, 0.0) for name in recipe]
    candidates: dict[str, Learner] = {}
    if "first" in recipe:
        candidates["first"] = CombSUM(weights=[float(name == "first") for name in recipe], normalise="none")
    if any(known):
        candidates["auto"] = CombSUM(weights=known, normalise="none")
    for match in (name for name in (MATCH, POSITIONS) if name in recipe):
        candidates[match] = CombSUM(weights=[float(name == match) for name in recipe], normalise="none")
    inputs = tuple(candidates)
    start = [ANCHOR_SCALE * weight for weight in known] if any(known) else None
    for penalty in PENALTIES:
        candidates[f"net, penalty {penalty:g}"] = SimTripletNet(
            penalty=penalty, start=start, normalise="none", random_state=random_state
        )
    return Best(candidates=candidates, folds=folds, caution=0.5, inputs=inputs, random_state=random_state)


def fit_learner(learner: Learner, X: Floats, y: Floats, qid: NDArray[np.generic]) -> Learner:
    """Fits a learner on X (rows, features), y (rows,) and qid (rows,), and returns it. Warns of a single query."""
    if len(np.unique(qid)) == 1:
        logger.warning(
            "%s: there is only one training query, so what is learned fits that query and maybe no other", learner.name
        )
    return learner.fit(X, y, qid)


def log_choice(learner: Learner, method: str, trained_on: str, far_queries: FarQueries | None = None) -> None:
    """Logs which learner `best` chose, with the cross-validated MAP of all it tried; nothing for other learners.

    `method` is the method's name, `trained_on` describes the training data, such as "40 queries". `far_queries` says which
    queries an input ranks instead.
    """
    if isinstance(learner, Best):
        choice, scores = learner.choice_, ", ".join(f"{name} {score:.4f}" for name, score in learner.scores_.items())
        means = learner.scores_[choice], learner.unrelated_scores_[choice]
        if far_queries is not None:
            means = far_queries.scores
            choice += f" (for queries without a training query of cosine {far_queries.limit:g} or more: {far_queries.far})"
            scores += f", both {means[0]:.4f}"
        logger.info("%s: chose %s on %s (cross-validated MAP: %s)", method, choice, trained_on, scores)
        related, unrelated = (f"{mean:.4f}" for mean in means)
        if unrelated != related:
            message = "%s: on topics that share no relevant document with a training topic expect %s instead of %s"
            logger.info(message, method, unrelated, related)
