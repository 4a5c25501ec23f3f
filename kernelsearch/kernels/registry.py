"""Kernels by name, as the command line writes them: `bm25`, `2*bm25+vsm`, `bm25*cosine`, `bm25+vectors:minilm`.

Parentheses group terms, `(bm25+vsm)*cosine`, or hold what a kernel is made with: its parameters, `bm25(k1=2,b=.75)`, and the
kernel whose features it is applied to, `cosine(bm25)`, `rbf(vsm,gamma=.5)`.

`vectors:NAME` is the cosine of an index's vectors of that name. In a sum with vectors the other kernels are cosines too (their
features are scaled to unit length), so that factors are weights: `bm25+0.5*vectors:minilm`.

An external package declares kernels as entry points in the group `kernelsearch.kernels`:

    [project.entry-points."kernelsearch.kernels"]
    mine = "my_package:MyKernel"

The entry point's name is the kernel's name, its value a subclass of `Kernel` or a function that returns one. It is imported
when the kernel is used, not when names are listed.
"""

from __future__ import annotations

import inspect
import logging
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from kernelsearch.core.errors import KernelSearchError, OptionError
from kernelsearch.core.plugins import PluginError, accepted, check_methods
from kernelsearch.core.plugins import register as register_plugin
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet, JelinekMercer, Linear, LogEntropy
from kernelsearch.kernels.documents import RBF, Cosine, Polynomial
from kernelsearch.kernels.vectors import Normalised, VectorKernel
from kernelsearch.vectors.opened import Vectors

#: The group of entry points that other packages declare kernels in.
GROUP = "kernelsearch.kernels"

logger = logging.getLogger(__name__)

T = TypeVar("T")

KERNELS: dict[str, Callable[..., Kernel]] = {
    "linear": Linear,
    "vsm": VSM,
    "logentropy": LogEntropy,
    "bm25": BM25,
    "dirichlet": Dirichlet,
    "jm": JelinekMercer,
    "cosine": Cosine,
    "rbf": RBF,
    "polynomial": Polynomial,
}


@cache
def plugins() -> dict[str, EntryPoint]:
    """The kernels of installed packages by name, not imported yet; a name that exists already is left out with a warning."""
    known: dict[str, EntryPoint] = {}
    for entry in entry_points(group=GROUP):
        if entry.name in KERNELS or entry.name in known or not entry.name.isidentifier():
            logger.warning("plugin %s (%s): the name is taken or not an identifier; left out", entry.name, entry.value)
        else:
            known[entry.name] = entry
    return known


def names() -> list[str]:
    """The names of all kernels, those of plugins last."""
    return [*KERNELS, *plugins()]


def register(name: str, factory: Callable[..., Kernel]) -> None:
    """Makes a kernel known by name; `factory` takes the parameters it declares as dataclass fields."""
    if not name.isidentifier():
        raise OptionError(f"kernel name {name!r}: letters, digits and underscores only")
    KERNELS[name] = factory


def name_of(kind: type[Kernel]) -> str | None:
    """The name of `kind`, a class of kernels; None where neither this package nor a plugin has one for it."""
    for name, factory in KERNELS.items():
        if factory is kind:
            return name
    where = f"{kind.__module__}:{kind.__qualname__}"
    return next((name for name, entry in plugins().items() if entry.value == where), None)


def kernel(text: str, vectors: Callable[[str | None], Vectors] | None = None) -> Kernel:
    """A kernel from `text`, an expression of names, numbers, `+`, `*` and parentheses.

    `vectors` opens an index's vectors by name; without it `vectors:NAME` is refused. Raises OptionError.
    """
    return _Expression(text, vectors).parse()


class _Expression:
    """A recursive-descent parser of sums of products of numbers, kernels and sums in parentheses."""

    #: Numbers, operators and parentheses, names.
    TOKEN = re.compile(r"-?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?(?![^+*(),=\s])|[+*(),=]|[^+*(),=\s]+")

    def __init__(self, text: str, vectors: Callable[[str | None], Vectors] | None) -> None:
        self.text, self.vectors = text, vectors
        self.tokens = self.TOKEN.findall(text)
        self.place = 0
        self.normalised = "+" in self.tokens and any(map(_is_vectors, self.tokens))

    def parse(self) -> Kernel:
        """The kernel of the whole text."""
        result = self._sum()
        if self.place < len(self.tokens):
            raise self._error(f"{self._next()!r} is not expected where it is")
        return result

    def _error(self, reason: str) -> OptionError:
        return OptionError(f"kernel {self.text!r}: {reason}")

    def _next(self, ahead: int = 0) -> str:
        return self.tokens[self.place + ahead] if self.place + ahead < len(self.tokens) else ""

    def _take(self, token: str) -> bool:
        """Whether the next token is this one; if so, it is read."""
        if self._next() != token:
            return False
        self.place += 1
        return True

    def _sum(self) -> Kernel:
        total = self._product()
        while self._take("+"):
            total = total + self._product()
        return total

    def _product(self) -> Kernel:
        factor, result, first = 1.0, None, self.place
        while True:
            part = self._factor()
            if isinstance(part, float):
                factor *= part
            else:
                result = part if result is None else result * part
            if not self._take("*"):
                break
        if result is None:
            words = "*".join(token for token in self.tokens[first : self.place] if token != "*")
            raise self._error(f"{words!r} names no kernel; known: {', '.join(names())}")
        return result if factor == 1 else factor * result

    def _factor(self) -> Kernel | float:
        if self._take("("):
            return self._closed(self._sum())
        word = "" if self._next() in tuple("+*),=") else self._next()
        number = _number(word)
        if number is not None:
            self.place += 1
            return float(number)
        if _is_vectors(word):
            self.place += 1
            if self.vectors is None:
                raise self._error(f"{word!r} needs the vectors of an index, and there is none here")
            return VectorKernel(self.vectors(word.partition(":")[2] or None))
        if word not in KERNELS and word not in plugins():
            raise self._error(f"{word!r} is not one of {', '.join(names())}, vectors:NAME")
        self.place += 1
        given = self._arguments(word) if self._take("(") else {}
        made = make(word, given)
        if "base" in given and getattr(made, "base", None) is not given["base"]:
            raise self._error(f"{word!r} takes no other kernel in parentheses")
        return Normalised(made) if self.normalised and made.has_map else made

    def _arguments(self, word: str) -> dict[str, Any]:
        """What the parentheses after the kernel `word` hold: the kernel that it is applied to, if any, then NAME=NUMBER."""
        given: dict[str, Any] = {} if self._next(1) == "=" else {"base": self._sum()}
        while not given or self._take(","):
            name, number = self._next(), _number(self._next(2))
            if self._next(1) != "=" or number is None or name in given:
                found = "".join(self.tokens[self.place : self.place + 3])
                raise self._error(f"parameters of {word} are NAME=NUMBER, each once, not {found!r}")
            given[name] = number
            self.place += 3
        return self._closed(given)

    def _closed(self, inner: T) -> T:
        if not self._take(")"):
            raise self._error("a closing parenthesis is missing")
        return inner


def _number(word: str) -> int | float | None:
    """The finite number that `word` is, whole where it is written so; None for another word."""
    try:
        return int(word) if word.isdecimal() else value if math.isfinite(value := float(word)) else None
    except ValueError:
        return None


def _is_vectors(word: str) -> bool:
    return word == "vectors" or word.startswith("vectors:")


def make(name: str, parameters: Mapping[str, Any]) -> Kernel:
    """The kernel of a name with its `parameters`; None: the kernel's own default.

    Raises OptionError for an unknown name or parameter, PluginError for a plugin that can't be loaded or lacks a method.
    """
    if name not in KERNELS and name not in plugins():
        raise OptionError(f"kernel {name!r}: not one of {', '.join(names())}")
    source = f"kernel {name!r}" if name in KERNELS else register_plugin(plugins()[name])
    try:
        factory: Any = KERNELS[name] if name in KERNELS else plugins()[name].load()
        given = accepted(factory, dict(parameters))
        if unknown := [key for key in parameters if key not in given and key != "base"]:
            known = [key for key in inspect.signature(factory).parameters if key != "base"]
            raise OptionError(f"kernel {name}: no parameter {unknown[0]!r}; it has {', '.join(known) or 'none'}")
        made = factory(**{key: value for key, value in given.items() if value is not None})
    except KernelSearchError:
        raise
    except Exception as problem:  # another package's mistake, of whatever kind, is one line
        if name in KERNELS:
            raise
        raise PluginError(source, f"kernel {name!r} cannot be made ({type(problem).__name__}: {problem})") from problem
    if not isinstance(made, Kernel):
        raise PluginError(source, f"{factory!r} makes a {type(made).__name__}, not a Kernel")
    if not type(made).__module__.startswith("kernelsearch."):
        _check(made, source)
    return made


def _check(made: Kernel, source: str) -> None:
    """Raises PluginError, which names the method, for a kernel that lacks one or has one of another signature."""
    kind = type(made)
    check_methods(kind, Kernel, source)

    def has(name: str) -> bool:
        return getattr(kind, name) is not getattr(Kernel, name)

    if not has("document_features") and (made.has_map or not has("documents")):
        raise PluginError(
            source,
            f"{kind.__name__} has no method document_features(collection, docs, dtype); a kernel without feature maps "
            "says has_map = False and has documents(collection, a, b)",
        )
    if made.has_query and not has("query_features") and (made.has_map or not has("scores")):
        raise PluginError(
            source,
            f"{kind.__name__} has no method query_features(collection, query); a kernel that compares documents only "
            "says has_query = False",
        )
