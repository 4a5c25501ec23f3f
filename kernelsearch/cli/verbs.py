"""Verbs that are functions in Python, too: `kernelsearch.tune(...)` beside `python -m kernelsearch.tune`."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module that can be called as the function in it that has its name.

    `import kernelsearch.tune` binds the name `kernelsearch.tune` to the module, whatever it was bound to before; so the
    module itself has to be callable.
    """

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*arguments, **keywords)
