"""Parameters of training among those that are tried: each combination is fitted once, into a folder of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from kernelsearch import rerankers
from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.tuning.space import Setting, fit_part, key, split
from kernelsearch.tuning.trials import Plan


def fit_missing(plan: Plan, index: Index, tried: Sequence[Setting], folder: Path) -> Plan:
    """The plan with a fitted folder for each combination of training parameters; those that are there are taken."""
    wanted = {}
    for setting in tried:
        for name, part in split(setting, plan.names)[1].items():
            if fitted := fit_part(name, part):
                wanted[key({name: fitted})] = (name, fitted)
    places = {}
    for recipe, (name, fitted) in wanted.items():
        number = hashlib.sha256(f"{index.fingerprint} {recipe}".encode()).hexdigest()[:12]
        place = folder / f"{name}-{number}"
        if not (place / "meta.json").exists():
            console.notice(f"fitting {recipe}")
            rerankers.method(name).fit(index, TrainingData(output=place), **fitted)
        places[recipe] = str(place)
    return replace(plan, fitted=places)
