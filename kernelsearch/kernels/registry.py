"""Kernels by name, as the command line writes them: `bm25`, `2*bm25+vsm`, `bm25*cosine`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.asymmetric import BM25, VSM, Dirichlet, JelinekMercer, Linear
from kernelsearch.kernels.documents import RBF, Cosine, Polynomial

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


def register(name: str, factory: Callable[..., Kernel]) -> None:
    """Makes a kernel known by name; `factory` takes the parameters it declares as dataclass fields."""
    if not name.isidentifier():
        raise OptionError(f"kernel name {name!r}: letters, digits and underscores only")
    KERNELS[name] = factory


def kernel(text: str, parameters: Mapping[str, Any] | None = None) -> Kernel:
    """A kernel from its name or from a sum of products of names and numbers.

    `parameters` (k1, b, mu, ...) go to every named kernel that has them; None means the kernel's own default.
    """
    total: Kernel | None = None
    for part in text.split("+"):
        product = _product(part, text, parameters or {})
        total = product if total is None else total + product
    assert total is not None
    return total


def _product(part: str, text: str, parameters: Mapping[str, Any]) -> Kernel:
    factor, result = 1.0, None
    for word in (word.strip() for word in part.split("*")):
        try:
            factor *= float(word)
            continue
        except ValueError:
            pass  # not a number: a kernel's name
        if word not in KERNELS:
            raise OptionError(f"kernel {text!r}: {word!r} is not one of {', '.join(KERNELS)}")
        found = _named(word, parameters)
        result = found if result is None else result * found
    if result is None:
        raise OptionError(f"kernel {text!r}: {part.strip()!r} names no kernel; known: {', '.join(KERNELS)}")
    return result if factor == 1 else factor * result


def _named(name: str, parameters: Mapping[str, Any]) -> Kernel:
    factory: Any = KERNELS[name]
    known = {entry.name for entry in fields(factory)} if hasattr(factory, "__dataclass_fields__") else set(parameters)
    result: Kernel = factory(**{key: value for key, value in parameters.items() if key in known and value is not None})
    return result
