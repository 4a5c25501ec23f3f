"""The demonstration on the bundled collection; `DATA` is the folder of the collection."""

from kernelsearch.api.bundled import BUNDLED_FOLDER as DATA

__all__ = ["DATA"]
