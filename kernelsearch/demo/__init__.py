"""The demonstration on the bundled collection, whose folder is `DATA`."""

from kernelsearch.api.bundled import BUNDLED as DATA

__all__ = ["DATA"]
