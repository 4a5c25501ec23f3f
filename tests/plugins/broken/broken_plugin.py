"""A method whose name one of ours has already."""

from kernelsearch.core.options import Settings
from kernelsearch.rerankers.registry import Method

METHOD = Method("klsa", "not ours", Settings, "broken_plugin:Nothing")
