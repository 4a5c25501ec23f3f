"""The learners by name: ours, and those that packages declare as entry points in the group `kernelsearch.learners`."""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from kernelsearch.core.errors import Flag, OptionError, nearest
from kernelsearch.core.plugins import register
from kernelsearch.learning.ranking.fusers import CombSUM, Learner
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.learning.ranking.triplets import SimTripletNet

#: The option that names a learner.
LEARNER = Flag("learner")
#: The group of entry points that other packages declare learners in.
GROUP = "kernelsearch.learners"

LEARNERS: dict[str, type[Learner]] = {kind.name: kind for kind in (CombSUM, SimTripletNet, SimListMKL)}


@cache
def plugins() -> dict[str, EntryPoint]:
    """The learners of installed packages by name, not imported yet."""
    return {entry.name: entry for entry in entry_points(group=GROUP) if entry.name not in LEARNERS}


def learner_class(name: str, option: Flag = LEARNER) -> type[Learner]:
    """The learner of that name; raises OptionError, which names `option`, where there is none."""
    if name in LEARNERS:
        return LEARNERS[name]
    if name not in plugins():
        known = [*LEARNERS, *plugins()]
        raise OptionError(f"{name!r} is not one of best, {', '.join(known)}{nearest(name, known)}", option=option)
    register(plugins()[name])
    kind: type[Learner] = plugins()[name].load()
    return kind
