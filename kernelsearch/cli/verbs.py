"""Verbs that are functions in Python, too (`kernelsearch.tune(...)`), and those that another package declares."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any

from kernelsearch.core.errors import OptionError
from kernelsearch.core.plugins import register

#: The group of entry points that verbs are declared in: the verb's name, and its `main` as "module:function".
GROUP = "kernelsearch.verbs"


class CallableModule(ModuleType):
    """A module that can be called as the function in it that has its name.

    `import kernelsearch.tune` binds the name `kernelsearch.tune` to the module, whatever it was bound to before; so the
    module itself has to be callable.
    """

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*arguments, **keywords)


def declared_verb(name: str) -> Callable[[list[str]], None]:
    """The `main` of the verb `name` that is declared as an entry point. It is imported when it is called.

    Calling it raises OptionError where the package that declares it is missing.
    """

    def main(argv: list[str]) -> None:
        for entry in entry_points(group=GROUP, name=name):
            register(entry)
            try:
                run = entry.load()
            except ModuleNotFoundError as problem:
                raise OptionError(f"{name}: {entry.value} is not installed ({problem})") from None
            run(argv)
            return
        raise OptionError(f"{name}: no installed package declares this verb")

    return main
