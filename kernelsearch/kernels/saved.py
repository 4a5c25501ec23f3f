"""Kernels as structured data (JSON), so that a fitted model can make its kernel again with all parameters.

>>> from kernelsearch.kernels.asymmetric import BM25, VSM
>>> from kernelsearch.kernels.documents import Cosine
>>> data = to_data(2 * BM25(k1=1.2) + Cosine(VSM()))
>>> data["sum"][0]
{'factor': 2.0, 'kernel': {'name': 'bm25', 'parameters': {'k1': 1.2, 'b': 0.4, 'k3': None}}}
>>> from_data(data) == 2 * BM25(k1=1.2) + Cosine(VSM())
True
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from kernelsearch.core.errors import OptionError
from kernelsearch.kernels import registry
from kernelsearch.kernels.algebra import Kernel, Product, Scaled, Sum
from kernelsearch.kernels.vectors import Normalised, VectorKernel
from kernelsearch.vectors.opened import Vectors

Data = dict[str, Any]


def to_data(kernel: Kernel) -> Data | None:
    """A kernel as data that JSON can hold; None where its class has no name in the registry, or where it holds a function."""
    match kernel:
        case Scaled(factor, inner):
            return _complete({"factor": factor, "kernel": to_data(inner)})
        case Sum(left, right) | Product(left, right):
            parts = [to_data(left), to_data(right)]
            return None if None in parts else {"sum" if isinstance(kernel, Sum) else "product": parts}
        case VectorKernel(vectors):
            return {"vectors": vectors.name}
        case Normalised(base):
            return _complete({"normalised": to_data(base)})
    name = registry.name_of(type(kernel))
    if name is None or not is_dataclass(kernel):
        return None
    parameters: Data = {}
    for field in fields(kernel):
        value = getattr(kernel, field.name)
        if isinstance(value, Kernel):
            value = _complete({"kernel": to_data(value)})
            if value is None:
                return None
        elif not isinstance(value, int | float | str | None):
            return None
        parameters[field.name] = value
    return {"name": name, "parameters": parameters}


def _complete(data: Data) -> Data | None:
    return None if None in data.values() else data


def from_data(data: Mapping[str, Any], vectors: Callable[[str | None], Vectors] | None = None) -> Kernel:
    """The kernel that `to_data` described; `vectors` opens an index's vectors by name.

    Raises OptionError for data that describes no kernel, or names one that isn't installed here.
    """
    try:
        if "factor" in data:
            return Scaled(float(data["factor"]), from_data(data["kernel"], vectors))
        if "sum" in data or "product" in data:
            left, right = (from_data(part, vectors) for part in data.get("sum") or data["product"])
            return Sum(left, right) if "sum" in data else Product(left, right)
        if "vectors" in data:
            if vectors is None:
                raise OptionError(f"kernel vectors:{data['vectors']}: needs the vectors of an index, and there is none here")
            weight, kernel = float(data.get("vector_weight", 1.0)), VectorKernel(vectors(data["vectors"]))
            return kernel if weight == 1.0 else weight * kernel
        if "expression" in data:
            return registry.kernel(data["expression"], vectors=vectors)
        if "normalised" in data:
            return Normalised(from_data(data["normalised"], vectors))
        parameters = {
            name: from_data(value["kernel"], vectors) if isinstance(value, Mapping) else value
            for name, value in data["parameters"].items()
        }
        return registry.make(data["name"], parameters)
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError):
        raise OptionError(f"kernel: {str(data)[:200]!r} describes no kernel") from None
