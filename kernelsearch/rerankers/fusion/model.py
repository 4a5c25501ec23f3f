"""A fitted fuser on disk: its weights or trees, the recipe of its features, and how it was made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core import artefacts
from kernelsearch.core.errors import ArtefactError
from kernelsearch.learning.ranking.choose import LEARNERS, Best
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.simlistmkl import SimListMKL, _xgboost
from kernelsearch.learning.ranking.triplets import TripletLearner

KIND = "fusion model"
VERSION = 1
TREES = "trees.ubj"


@dataclass(frozen=True)
class Model:
    """A fitted learner with the names of its features in their order, and notes on its making as plain data."""

    learner: Learner
    recipe: tuple[str, ...]
    notes: dict[str, Any] = field(default_factory=dict)

    def importance(self) -> np.ndarray:
        """How much each feature counts overall, shape (features,), summing to 1: weights, or the trees' total gain."""
        learner = self.learner
        if isinstance(learner, SimListMKL):
            gains = learner.booster_.get_score(importance_type="total_gain")
            found = np.array([gains.get(f"f{number}", 0.0) for number in range(len(self.recipe))])
        elif isinstance(learner, TripletLearner):
            found = learner.weights_
        else:
            given = getattr(learner, "weights", None)
            found = np.ones(len(self.recipe)) if given is None else np.abs(given)
        total = found.sum()
        return found / total if total > 0 else found


def save(
    path: str | Path,
    learner: Learner,
    recipe: Sequence[str],
    notes: dict[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
) -> Path:
    """Saves a fitted learner; of `best` the one that it chose. `files` are texts that go with it, {name: text}."""
    about = dict(notes or {})
    if isinstance(learner, Best):
        about["cross_validated"] = learner.scores_
        learner = learner.chosen_
    if learner.name not in LEARNERS or learner.name == "exact":
        raise ArtefactError(f"{path}: a learner {learner.name!r} can't be saved; it is there to compare with")
    arrays = {"weights": learner.weights_} if isinstance(learner, TripletLearner) else {}
    trees = learner.booster_.save_raw("ubj") if isinstance(learner, SimListMKL) else None

    def write_files(folder: Path) -> None:
        if trees is not None:
            (folder / TREES).write_bytes(bytes(trees))
        for name, text in (files or {}).items():
            (folder / name).write_text(text, encoding="utf-8")

    artefacts.save(
        path,
        KIND,
        VERSION,
        arrays=arrays,
        parameters={"learner": learner.name, "settings": learner.parameters(), "recipe": list(recipe)},
        extra=about,
        fill=write_files,
    )
    return Path(path)


def load(path: str | Path) -> Model:
    """Reads a saved model."""
    meta, arrays = artefacts.load(path, KIND, VERSION, mmap=False)
    try:
        parameters = meta["parameters"]
        recipe = tuple(str(name) for name in parameters["recipe"])
        learner = LEARNERS[parameters["learner"]](**parameters["settings"])
        learner.features_ = len(recipe)
        if isinstance(learner, TripletLearner):
            learner.weights_ = np.asarray(arrays["weights"], dtype=np.float64)
            if learner.weights_.shape != (len(recipe),):
                raise ArtefactError(f"{path}: {len(learner.weights_)} weights for {len(recipe)} features")
    except (KeyError, TypeError) as problem:
        raise ArtefactError(f"{path}: damaged, no {problem}; train the model again") from None
    if isinstance(learner, SimListMKL):
        xgboost = _xgboost()
        learner.booster_ = xgboost.Booster({"nthread": 1})
        try:
            learner.booster_.load_model(bytearray((Path(path) / TREES).read_bytes()))
        except (xgboost.core.XGBoostError, OSError, ValueError):
            raise ArtefactError(f"{Path(path) / TREES}: damaged; train the model again") from None
    return Model(learner, recipe, meta["extra"])
