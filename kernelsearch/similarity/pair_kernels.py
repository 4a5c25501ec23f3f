"""Kernels between a document and others by name: `cosine:field=title`, `latent`, `vectors:minilm`, `category:field=genre`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.options import Settings, option
from kernelsearch.kernels import registry
from kernelsearch.kernels.asymmetric import BM25, JelinekMercer
from kernelsearch.kernels.documents import Cosine
from kernelsearch.rerankers.base import OpenedIndex
from kernelsearch.rerankers.fusion.pool import CandidateField
from kernelsearch.similarity import fields
from kernelsearch.similarity.latent import LatentSpace
from kernelsearch.vectors.store import DocumentVectors, current_names

Floats = NDArray[np.float64]

TEXT = {"cosine": Cosine(), "bm25": Cosine(BM25(2.0, 0.75)), "language": Cosine(JelinekMercer(0.5))}
STORED: dict[str, Callable[..., Floats]] = {
    "category": fields.same_category,
    "list": fields.shared_items,
    "number": fields.near_numbers,
    "date": fields.near_dates,
    "string": fields.like_strings,
}
SCALED = ("number", "date")


KERNELS = Flag("kernels")


class PairKernels:
    """A recipe of document kernels on one index; `option` is the option that error messages name."""

    def __init__(self, index: OpenedIndex, recipe: Sequence[str], option: Flag = KERNELS) -> None:
        self.index, self.recipe = index, tuple(recipe)
        self._parts = [_parse(name, option) for name in recipe]
        self._latent = LatentSpace(index) if any(kind == "latent" for kind, _ in self._parts) else None
        self._vectors = {
            settings.name: index.vectors(settings.name).documents
            for _, settings in self._parts
            if isinstance(settings, VectorKernelSettings)
        }
        indexed = {settings.field for _, settings in self._parts if isinstance(settings, TextKernelSettings)}
        self._absent = {name for name in indexed if name != "contents" and index.lucene.field_statistics(name).documents == 0}

    def table(self, doc: int, others: NDArray[np.int32]) -> Floats:
        """Each kernel between the document in row `doc` and the others, shape (others, kernels)."""
        rows = np.concatenate([[doc], others]).astype(np.int32)
        pools: dict[str, CandidateField] = {}
        stored = fields.records(self.index, rows) if any(kind in STORED for kind, _ in self._parts) else []
        columns = []
        for kind, settings in self._parts:
            if isinstance(settings, LatentKernelSettings):
                assert self._latent is not None
                columns.append(self._latent.similarity(doc, others, settings.dims))
            elif isinstance(settings, VectorKernelSettings):
                columns.append(_cosines(self._vectors[settings.name], doc, others))
            elif isinstance(settings, TextKernelSettings):
                name = settings.field
                if name in self._absent:
                    columns.append(np.zeros(len(others)))
                    continue
                if name not in pools:
                    pools[name] = CandidateField(self.index.field(name), rows)
                kernel = TEXT[kind] if kind in TEXT else registry.kernel(kind)
                if not kernel.has_map:
                    columns.append(kernel.documents(pools[name], pools[name].rows[:1], pools[name].rows[1:])[0])
                    continue
                features = kernel.document_features(pools[name], pools[name].rows)
                columns.append(np.asarray((features[1:] @ features[0].T).todense()).ravel())
            elif isinstance(settings, StoredKernelSettings):
                assert settings.field is not None
                values = [record.get(settings.field) for record in stored]
                extra = {"scale": settings.scale} if isinstance(settings, ScaledKernelSettings) else {}
                columns.append(STORED[kind](values[0], values[1:], **extra))
        return np.column_stack(columns)

    def lacks_vectors(self, doc: int) -> bool:
        """Whether all kernels compare vectors and the document in row `doc` has none of them: nothing is similar to it then."""
        only_vectors = all(isinstance(settings, VectorKernelSettings) for _, settings in self._parts)
        return only_vectors and not any(vectors.present[doc] for vectors in self._vectors.values())

    def nearest(self, doc: int, count: int) -> list[NDArray[np.int32]]:
        """Rows of the `count` + 1 documents nearest to row `doc` by each of the recipe's vectors, itself included."""
        row = np.array([doc])
        return [
            vectors.nearest(vectors.take(row), count + 1)[0][0] for vectors in self._vectors.values() if vectors.present[doc]
        ]


def _cosines(vectors: DocumentVectors, doc: int, others: NDArray[np.int32]) -> Floats:
    """Cosines between a document's vector and others'; a document without a vector gets the mean, which says nothing."""
    if not vectors.present[doc]:
        return np.zeros(len(others))
    cosines = np.asarray(vectors.unit(others) @ vectors.unit(np.array([doc]))[0], dtype=np.float64)
    known = vectors.present[others]
    cosines[~known] = cosines[known].mean() if known.any() else 0.0
    return cosines


def default_recipe(index: OpenedIndex, sample: int = 200) -> tuple[str, ...]:
    """Kernels of body, title and latent space of `index`, and one per stored field whose kind `sample` records show."""
    live = index.forward.live_docs
    chosen = live[np.linspace(0, len(live) - 1, min(sample, len(live))).astype(int)] if len(live) else live
    text = ["cosine", "bm25", "language"]
    if index.lucene.field_statistics("title").documents:
        text.append("cosine:field=title")
    if LatentSpace.available(index):
        text.append("latent")
    text += [f"vectors:{name}" for name in current_names(index.artefacts, index.fingerprint)]
    kinds = fields.field_kinds(fields.records(index, chosen))
    return (*text, *(f"{kind}:field={name}" for name, kind in sorted(kinds.items())))


@dataclass(frozen=True, kw_only=True)
class LatentKernelSettings(Settings):
    """Parameters of the kernel `latent`."""

    owner: ClassVar[str] = "latent"

    dims: int | None = option(None, "number of latent dimensions; default: all that were fitted", low=1)


@dataclass(frozen=True, kw_only=True)
class VectorKernelSettings(Settings):
    """Parameters of the kernel `vectors`."""

    owner: ClassVar[str] = "vectors"

    name: str | None = option(None, "name of the vectors; default: the only ones of the index")


@dataclass(frozen=True, kw_only=True)
class TextKernelSettings(Settings):
    """Parameters of a kernel between texts."""

    field: str = option("contents", "indexed field whose texts are compared")


@dataclass(frozen=True, kw_only=True)
class StoredKernelSettings(Settings):
    """Parameters of a kernel between values of a stored field."""

    field: str | None = option(None, "stored field whose values are compared")


@dataclass(frozen=True, kw_only=True)
class ScaledKernelSettings(StoredKernelSettings):
    """Parameters of a kernel between numbers or dates."""

    scale: float | None = option(
        None, "standard deviation of the Gaussian kernel; default: that of the compared values", low=1e-12
    )


def _parse(text: str, option: Flag) -> tuple[str, Settings]:
    kind, _, tail = text.partition(":")
    if kind == "vectors":
        return kind, VectorKernelSettings(name=tail.removeprefix("name=") or None)
    parameters = dict(part.partition("=")[::2] for part in filter(None, tail.split(",")))
    if kind == "latent":
        return kind, LatentKernelSettings.of(parameters)
    if kind in TEXT or kind in registry.plugins():
        return kind, TextKernelSettings.of(parameters)
    if kind not in STORED:
        known = ", ".join(["latent", "vectors", *TEXT, *STORED, *registry.plugins()])
        raise OptionError(f"unknown kernel {kind!r}; known: {known}", option=option)
    settings = (ScaledKernelSettings if kind in SCALED else StoredKernelSettings).of(parameters)
    if not settings.field:
        raise OptionError(f"{text!r} should name its field, as in {kind}:field=NAME", option=option)
    return kind, settings
