"""Options of training among those that are tried: each combination is fitted once, into a folder of its own."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import OpenedIndex, TrainingData
from kernelsearch.tuning.space import Setting, fit_part, key, split
from kernelsearch.tuning.trials import Plan

logger = logging.getLogger(__name__)


def fit_missing(plan: Plan, index: OpenedIndex, tried: Sequence[Setting], folder: Path) -> Plan:
    """The plan with a fitted folder for each combination of training options in `tried`, below `folder`.

    Methods are fitted on `index`; existing folders are used again.
    """
    wanted = {}
    for setting in tried:
        for name, part in split(setting, plan.names)[1].items():
            if fitted := fit_part(name, part):
                wanted[key({name: fitted})] = (name, fitted)
    folders = {}
    for recipe, (name, fitted) in wanted.items():
        number = hashlib.sha256(f"{index.fingerprint} {recipe}".encode()).hexdigest()[:12]
        fitted_folder = folder / f"{name}-{number}"
        if not (fitted_folder / "meta.json").exists():
            logger.info("fitting %s", recipe)
            registry.method(name).fit(index, TrainingData(output=fitted_folder, progress=index.progress), **fitted)
        folders[recipe] = str(fitted_folder)
    return replace(plan, fitted=folders)
