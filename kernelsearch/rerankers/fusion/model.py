"""A fitted fusion on disk: its weights or trees, the recipe of its features, and how it was trained."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts, invariants
from kernelsearch.core.errors import ArtefactError, OptionError, quote
from kernelsearch.core.options import LARGEST_FLOAT
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.fusers import CombSUM, Learner
from kernelsearch.learning.ranking.registry import learner_class
from kernelsearch.learning.ranking.simlistmkl import SimListMKL, load_booster
from kernelsearch.learning.ranking.triplets import LinearLearner

KIND = "fusion model"
VERSION = 1
#: The file of the trees of a model, in xgboost's own format.
TREES = "trees.ubj"
#: The note of a model that chose the weights of `auto` for the default recipe: the name of auto's vectors, or "none".
AS_AUTO = "auto_with_vectors"
#: The note of a model that ranks queries far from its training queries by an input: {LIMIT: largest cosine, WEIGHTS: {feature:
#: weight} of the input}, and AS_AUTO where the input is `auto`.
FAR, LIMIT, WEIGHTS = "far_queries", "limit", "weights"


@dataclass(frozen=True)
class FusionModel:
    """A fitted learner, the names of its features in the order of its columns, and notes on its training as plain data.

    `fingerprint` is that of the index whose docids the training queries name; empty where the model belongs to no index.
    """

    learner: Learner
    recipe: tuple[str, ...]
    notes: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""

    def importance(self) -> NDArray[np.float64]:
        """Share of each feature in the model, shape (features,), summing to 1: by weight, or by the trees' total gain."""
        learner = self.learner
        if isinstance(learner, SimListMKL):
            gains = learner.booster_.get_score(importance_type="total_gain")
            shares = np.array([gains.get(f"f{number}", 0.0) for number in range(len(self.recipe))], dtype=np.float64)
        elif isinstance(learner, LinearLearner):
            shares = np.abs(learner.weights_)
        else:
            weights = getattr(learner, "weights", None)
            shares = np.ones(len(self.recipe)) if weights is None else np.abs(np.asarray(weights, dtype=np.float64))
        total = float(shares.sum())
        return np.asarray(shares / total if total > 0 else shares, dtype=np.float64)

    def effective(self, needed: Collection[str] = ()) -> FusionModel:
        """The model without features of weight 0, which gives the same scores; itself if its learner isn't a weighted sum.

        Weights that may not be negative are often exactly 0, and a feature takes as long to compute with any weight. The
        features `needed` stay.
        """
        learner = copy(self.learner)
        if isinstance(learner, LinearLearner):
            weights = learner.weights_
        elif isinstance(learner, CombSUM) and learner.weights is not None:
            weights = np.asarray(learner.weights, dtype=np.float64)
        else:
            return self
        if weights.shape != (len(self.recipe),):  # a damaged model, which the learner refuses
            return self
        features = zip(self.recipe, weights, strict=True)
        used = [number for number, (name, weight) in enumerate(features) if weight or name in needed] or [0]
        learner.features_ = len(used)
        if isinstance(learner, LinearLearner):
            learner.weights_ = weights[used]
        else:
            learner.weights = weights[used].tolist()
        return replace(self, learner=learner, recipe=tuple(self.recipe[number] for number in used))


def save(
    path: str | Path,
    learner: Learner,
    recipe: Sequence[str],
    notes: Mapping[str, Any] | None = None,
    files: Mapping[str, str] | None = None,
    fingerprint: str = "",
) -> Path:
    """Saves a fitted learner as the artefact `path` and returns its folder; of `best` the learner that it chose.

    `recipe` names the features in the order of the columns, `notes` is kept as plain data, `files` are further text files,
    {name: text}, `fingerprint` that of the index that was trained on. Raises ArtefactError for a learner without a saved form.
    """
    about = dict(notes or {})
    if isinstance(learner, Best):
        about["cross_validated"] = learner.scores_
        about["cross_validated_unrelated"] = learner.unrelated_scores_
        learner = learner.chosen_
    if learner.name == "exact":
        raise ArtefactError(f"learner {learner.name!r} can't be saved; it exists for comparison only", path=path)
    arrays = {"weights": learner.weights_} if isinstance(learner, LinearLearner) else {}
    settings = {key: value.tolist() if isinstance(value, np.ndarray) else value for key, value in learner.get_params().items()}

    def write_files(folder: Path) -> None:
        for name, text in (files or {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        if isinstance(learner, SimListMKL):
            (folder / TREES).write_bytes(learner.booster_.save_raw("ubj"))

    artefacts.save(
        path,
        KIND,
        VERSION,
        arrays=arrays,
        parameters={"learner": learner.name, "settings": settings, "recipe": list(recipe)},
        fingerprint=fingerprint,
        extra=about,
        fill=write_files,
    )
    return Path(path)


def load(path: str | Path) -> FusionModel:
    """Reads the model saved as `path`; raises ArtefactError where it is missing or damaged."""
    meta, arrays = artefacts.load(path, KIND, VERSION, mmap=False)
    artefacts.run_validation(Path(path), validate, meta, arrays, KIND)  # always: it is quick
    try:
        parameters = meta["parameters"]
        recipe = tuple(str(name) for name in parameters["recipe"])
        learner = learner_class(parameters["learner"])(**parameters["settings"])
        _check_settings(path, learner, parameters["settings"])
        learner.features_ = len(recipe)
        if isinstance(learner, LinearLearner):
            learner.weights_ = np.asarray(arrays["weights"], dtype=np.float64)
            if learner.weights_.shape != (len(recipe),):
                raise ArtefactError(f"{len(learner.weights_)} weights for {len(recipe)} features", path=path)
    except (KeyError, TypeError) as problem:
        raise ArtefactError(f"damaged, no {problem}; train the model again", path=path) from None
    except OptionError:
        name = quote(parameters["learner"])
        raise ArtefactError(f"needs the learner {name}, which no installed package has", path=path) from None
    if isinstance(learner, SimListMKL):
        learner.booster_ = load_booster(Path(path) / TREES, len(recipe))
    return FusionModel(learner, recipe, meta["extra"], str(meta.get("fingerprint", "")))


def _check_settings(path: str | Path, learner: Learner, settings: Mapping[str, Any]) -> None:
    """Raises ArtefactError for a setting of a learner that is not of its default's type, or not a usual number."""
    for name, value in settings.items():
        default = getattr(type(learner), name, None)
        if isinstance(default, int | float) and not isinstance(default, bool):
            fits = _is_number(value)
        else:
            fits = default is None or isinstance(value, type(default))
        if not fits:
            raise ArtefactError(f"damaged, {name} is {quote(value)}; train the model again", path=path)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST_FLOAT


def _check_far(note: object) -> None:
    """Raises ValueError or KeyError where the note FAR of a model is damaged."""
    if not isinstance(note, dict) or not isinstance(note.get(AS_AUTO, ""), str):
        raise ValueError(f"{FAR} is not a description")
    weights = note[WEIGHTS]
    if not isinstance(weights, dict) or not weights or not all(map(_is_number, (note[LIMIT], *weights.values()))):
        raise ValueError(f"{FAR} has no limit or no weights")


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for a model that is damaged: `meta` is its description, `arrays` are its weights or trees.

    Weights must be finite, and trees must be in a file of their own.
    """
    recipe, learner = meta["parameters"]["recipe"], meta["parameters"]["learner"]
    notes = meta["extra"]
    for name in ("sources", "trained_on"):
        values = notes.get(name, [])
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ValueError(f"{name} is not a list of texts")
    if notes.get("normalise", "z") not in ("z", "minmax", "none"):
        raise ValueError("normalise is not one of z, minmax, none")
    if not isinstance(notes.get(AS_AUTO, ""), str):
        raise ValueError(f"{AS_AUTO} is not a name")
    if FAR in notes:
        _check_far(notes[FAR])
    if learner == SimListMKL.name and TREES not in meta["files"]:
        raise ValueError("its trees are in the format of an earlier version")
    if "weights" in arrays:
        invariants.require_length("weights", arrays["weights"], len(recipe))
        invariants.require_finite("weights", arrays["weights"])
