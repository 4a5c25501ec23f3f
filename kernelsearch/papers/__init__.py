"""What the papers describe beside the product's methods: printed forms, controls, baselines, further learners, their verbs.

A package of this folder declares its methods as a package of `kernelsearch/rerankers` does. They are found through the entry
points that methods of other distributions are found through (setup.cfg), so that nothing of the product imports this folder.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from kernelsearch.rerankers.registry import Method

METHODS: tuple[Method, ...] = tuple(
    method
    for module in pkgutil.iter_modules(__path__)
    if module.ispkg
    for method in getattr(import_module(f"{__name__}.{module.name}"), "METHODS", ())
)
