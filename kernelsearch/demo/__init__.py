"""The demonstration on the bundled collection; `DATA` is the folder of the collection."""

from kernelsearch.api.bundled import BUNDLED as DATA

__all__ = ["DATA"]
