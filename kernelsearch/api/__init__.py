"""The Python API: an opened index, pipelines, results, and the function that takes topics to ranked lists.

The names in `__all__` are public; their modules are imported on first use, so that importing the package stays quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kernelsearch.api.build import BuildSettings, build_index
    from kernelsearch.api.index import Index
    from kernelsearch.api.pipeline import Pipeline
    from kernelsearch.api.results import Hit, Results
    from kernelsearch.api.topics import Topic, TopicList, run_topics
    from kernelsearch.api.updating import Updated, update_index

__all__ = [
    "BuildSettings",
    "Hit",
    "Index",
    "Pipeline",
    "Results",
    "Topic",
    "TopicList",
    "Updated",
    "build_index",
    "run_topics",
    "update_index",
]

#: The module of each public name.
_MODULES = {
    "BuildSettings": "build",
    "Hit": "results",
    "Index": "index",
    "Pipeline": "pipeline",
    "Results": "results",
    "Topic": "topics",
    "TopicList": "topics",
    "Updated": "updating",
    "build_index": "build",
    "run_topics": "topics",
    "update_index": "updating",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
