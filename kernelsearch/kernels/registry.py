"""Kernels by name, as the command line writes them: `bm25`, `2*bm25+vsm`, `bm25*cosine`, `bm25+vectors:minilm`.

`vectors:NAME` is the cosine of an index's vectors of that name. In a sum with vectors the other kernels are cosines too (their
features are brought to unit length), so that factors are weights.

A package of somebody else's declares kernels as entry points in the group `kernelsearch.kernels`:

    [project.entry-points."kernelsearch.kernels"]
    mine = "my_package:MyKernel"

The entry point's name is the kernel's name, its value a subclass of `Kernel` or a function that returns one. It is imported
when the kernel is used, not when names are listed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet, JelinekMercer, Linear
from kernelsearch.kernels.documents import RBF, Cosine, Polynomial
from kernelsearch.kernels.vectors import Normalised, VectorKernel
from kernelsearch.vectors.opened import Vectors

#: The group of entry points that other packages declare kernels in.
GROUP = "kernelsearch.kernels"

logger = logging.getLogger(__name__)

KERNELS: dict[str, Callable[..., Kernel]] = {
    "linear": Linear,
    "vsm": VSM,
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


def kernel(
    text: str, parameters: Mapping[str, Any] | None = None, vectors: Callable[[str | None], Vectors] | None = None
) -> Kernel:
    """A kernel from its name or from a sum of products of names and numbers.

    `parameters` (k1, b, mu, ...) go to every named kernel that has them; None means the kernel's own default. `vectors` opens
    an index's vectors by name; without it `vectors:NAME` is refused.
    """
    total: Kernel | None = None
    parts = text.split("+")
    normalised = len(parts) > 1 and any(_is_vectors(word.strip()) for part in parts for word in part.split("*"))
    for part in parts:
        product = _product(part, text, parameters or {}, vectors, normalised)
        total = product if total is None else total + product
    assert total is not None
    return total


def _product(
    part: str,
    text: str,
    parameters: Mapping[str, Any],
    vectors: Callable[[str | None], Vectors] | None,
    normalised: bool,
) -> Kernel:
    factor, result = 1.0, None
    for word in (word.strip() for word in part.split("*")):
        try:
            factor *= float(word)
            continue
        except ValueError:
            pass  # not a number: a kernel's name
        if _is_vectors(word):
            made = _vector_kernel(word, text, parameters, vectors)
        elif word not in KERNELS and word not in plugins():
            raise OptionError(f"kernel {text!r}: {word!r} is not one of {', '.join(names())}, vectors:NAME")
        else:
            made = _make(word, parameters)
            if normalised and made.has_map:
                made = Normalised(made)
        result = made if result is None else result * made
    if result is None:
        raise OptionError(f"kernel {text!r}: {part.strip()!r} names no kernel; known: {', '.join(names())}")
    return result if factor == 1 else factor * result


def _is_vectors(word: str) -> bool:
    return word == "vectors" or word.startswith("vectors:")


def _vector_kernel(
    word: str, text: str, parameters: Mapping[str, Any], vectors: Callable[[str | None], Vectors] | None
) -> Kernel:
    """The kernel `vectors:NAME`; without a name that of the vectors that the index was opened with."""
    if vectors is None:
        raise OptionError(f"kernel {text!r}: {word!r} needs the vectors of an index, and there is none here")
    weight = parameters.get("vector_weight")
    return VectorKernel(vectors(word.partition(":")[2] or None), 1.0 if weight is None else float(weight))


def _make(name: str, parameters: Mapping[str, Any]) -> Kernel:
    """The kernel of a name, with those of the parameters that it has."""
    factory: Any = KERNELS[name] if name in KERNELS else _load(plugins()[name])
    known = {entry.name for entry in fields(factory)} if hasattr(factory, "__dataclass_fields__") else set(parameters)
    made = factory(**{key: value for key, value in parameters.items() if key in known and value is not None})
    if not isinstance(made, Kernel):
        raise OptionError(f"kernel {name!r}: {factory!r} makes a {type(made).__name__}, not a Kernel")
    return made


def _load(entry: EntryPoint) -> Any:
    """Imports a plugin's factory; a plugin that fails to import is an `OptionError` which names it."""
    try:
        return entry.load()
    except Exception as problem:  # another package's mistake, of whatever kind, is one line
        message = f"kernel {entry.name!r}: plugin {entry.value} cannot be loaded ({type(problem).__name__}: {problem})"
        raise OptionError(message) from None
