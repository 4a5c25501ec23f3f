"""A latent basis of a collection: the rows of U, fitted once and kept beside the index.

K = k_d(F, F) = ΦΦᵀ is never formed: U holds the left singular vectors of the feature matrix Φ (Park & Ramamohanarao, CIKM 2009,
section 3, with the decomposition taken on the other side).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.forward import ForwardIndex, StringTable
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.documents import Cosine
from kernelsearch.kernels.spectral import Decomposition, Rows, decompose
from kernelsearch.kernels.spectral.feature_rows import FeatureSource, PartedRows

KIND = "latent basis"
VERSION = 1


class LatentBasis:
    """A fitted basis, memory-mapped.

    - `rows` (documents, dims) float32: U, a document's place in the latent space; norms are at most 1
    - `values` (dims,): singular values, largest first
    - `loadings` (features, dims) float32: each feature's part in each dimension; V where the kernel has a feature map
    - `meta`: kernel, parameters, captured energy, residual
    """

    def __init__(self, path: str | Path, *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        self.meta, arrays = artefacts.load(self.path, KIND, VERSION, fingerprint=fingerprint)
        self.rows: NDArray[np.float32] = arrays["rows"]
        self.values: NDArray[np.float64] = arrays["values"]
        self.loadings: NDArray[np.float32] = arrays["loadings"]
        self.feature_terms: NDArray[np.int64] = arrays["feature_terms"]
        self.terms = StringTable(arrays["term_bytes"], arrays["term_ends"])

    @property
    def dims(self) -> int:
        return self.rows.shape[1]

    @property
    def parameters(self) -> dict[str, Any]:
        return self.meta["parameters"]

    @cached_property
    def norms(self) -> NDArray[np.float32]:
        """Length of each document's row: how much of it the basis holds."""
        return np.linalg.norm(self.rows, axis=1)

    def strongest_terms(self, dimension: int, count: int = 5) -> list[str]:
        """The terms that pull most in a dimension; those that pull against the others have a minus sign."""
        column = np.asarray(self.loadings[:, dimension])
        count = min(count, len(column))
        places = np.argpartition(-np.abs(column), count - 1)[:count]
        places = places[np.argsort(-np.abs(column[places]))]
        numbers = self.feature_terms[places]
        words = [self.terms[int(number)] if number >= 0 else "(length)" for number in numbers]
        # The sign of a dimension as a whole means nothing: it is taken from the strongest term.
        along = column[places] * column[places[:1]] >= 0
        return [word if same else f"-{word}" for word, same in zip(words, along, strict=True)]

    def fold(self, features: Any) -> NDArray[np.floating]:
        """Latent rows of documents from their features, shape (documents, features): Φ V Σ⁻¹, without a new decomposition."""
        if self.parameters["landmarks"]:
            raise OptionError(f"{self.path}: a basis from landmarks has no feature map to fold documents in by; fit it again")
        return np.asarray(features @ (np.asarray(self.loadings, dtype=np.float64) / self.values))


def fit_basis(
    path: str | Path,
    collection: ForwardIndex,
    kernel: Kernel,
    *,
    dims: int = 300,
    solver: str = "auto",
    tolerance: float = 1e-2,
    landmarks: int = 1000,
    memory: float = 2e9,
    limit: MemoryLimit | None = None,
    engine: Engine | None = None,
    parts: int = 1,
    random_state: int = 0,
    parameters: Mapping[str, Any] | None = None,
    finish: Callable[[Path], None] = lambda folder: None,
    progress: Callable[[int, float], None] = lambda products, residual: None,
) -> LatentBasis:
    """Decomposes a collection under a kernel and saves the basis.

    A kernel without a feature map goes through `landmarks` documents (Nyström). `memory` bounds what is kept of Φ
    between passes over it. Under a memory limit the solver's vectors stand in a mapped file where they would take more than
    half of it. An `engine` holds Φ in so many `parts`, which are the same whatever the engine. `finish` may write further files
    into the artefact's folder, where `rows.npy` then stands already.
    """
    mapped = kernel.has_map
    source = FeatureSource(collection, kernel, landmarks=landmarks, memory=memory, random_state=random_state)
    rows: Rows = source.rows() if engine is None or parts == 1 else PartedRows(source, engine, parts)

    def allocate(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
        return scratch_array(Path(path).parent, shape, dtype, limit)

    found = decompose(
        rows, dims, solver=solver, tolerance=tolerance, random_state=random_state, allocate=allocate, progress=progress
    )
    described = {
        **(parameters or {}),
        "kernel": str(kernel),
        "landmarks": 0 if mapped else landmarks,
        "field": collection.field,
    }
    extra = {"solver": found.solver, "energy": found.energy, "residual": found.residual, "folded": 0}
    terms = kernel.feature_terms(collection) if mapped else np.arange(len(collection.terms))
    _save(path, collection, found, rows, terms, described, extra, finish, mapped=mapped)
    return LatentBasis(path, fingerprint=collection.fingerprint)


def fold_in(
    path: str | Path,
    old: LatentBasis,
    collection: ForwardIndex,
    kernel: Kernel,
    *,
    memory: float = 2e9,
    finish: Callable[[Path], None] = lambda folder: None,
) -> LatentBasis:
    """A basis for a changed index from the term directions of an older one, without a new decomposition.

    Every document's row is Φ V Σ⁻¹ with the index's new statistics and the old V. Lost is what new documents have in common
    with each other alone: terms that the old index didn't have are outside the basis, and U's columns are no longer exactly
    orthonormal.
    `meta` tells the captured energy on the new collection and how many rows were folded since the last decomposition.
    """
    if old.parameters["landmarks"]:
        raise OptionError(f"{old.path}: a basis from landmarks has no feature map to fold documents in by; fit it again")
    places = _matching_features(old, collection, kernel)
    rows = FeatureSource(collection, kernel, memory=memory).rows()
    right = np.zeros((rows.shape[1], old.dims), dtype=rows.dtype)
    known = places >= 0
    right[known] = old.loadings[places[known]]
    held = sum(float(np.square(block @ right).sum()) for _, _, block in rows)
    new = len(collection) - (len(old.rows) - old.meta["extra"]["folded"])
    extra = {**old.meta["extra"], "energy": held / rows.squared_norm(), "folded": max(new, 0)}
    found = Decomposition(np.asarray(old.values), right, extra["energy"], extra["residual"], extra["solver"], 0)
    _save(path, collection, found, rows, kernel.feature_terms(collection), old.parameters, extra, finish, mapped=True)
    return LatentBasis(path, fingerprint=collection.fingerprint)


def _save(
    path: str | Path,
    collection: ForwardIndex,
    found: Decomposition,
    rows: Rows,
    feature_terms: NDArray[np.int64],
    parameters: Mapping[str, Any],
    extra: Mapping[str, Any],
    finish: Callable[[Path], None],
    mapped: bool,
) -> None:
    """Writes a basis, U block by block. Without a feature map, dimensions are described by the documents' terms, Xᵀ U."""

    def fill(folder: Path) -> None:
        file = folder / "loadings.npy"
        described = np.zeros((0 if mapped else len(collection.terms), len(found.values)), dtype=np.float32)
        if mapped:
            _write_rows(file, found.right)
            if found.right.dtype == np.float32:
                # The same numbers from the file: what follows needs the memory.
                found.right = np.load(file, mmap_mode="r")
        with artefacts.BlockWriter(folder / "rows.npy", np.float32, (len(collection), len(found.values))) as writer:
            for start, end, block in found.left(rows):
                writer.write(block)
                if not mapped:
                    described += Cosine().document_features(collection, np.arange(start, end), np.float32).T @ block
        if not mapped:
            artefacts.write_array(file, described)
        rows.forget()
        finish(folder)

    raw = collection.terms.take(np.arange(len(collection.terms)))
    encoded = [term.encode("utf-8", errors="replace") for term in raw]
    artefacts.save(
        path,
        KIND,
        VERSION,
        parameters=parameters,
        fingerprint=collection.fingerprint,
        extra=extra,
        arrays={
            "values": found.values,
            "feature_terms": feature_terms,
            "term_bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
            "term_ends": np.cumsum([len(term) for term in encoded], dtype=np.int64),
        },
        fill=fill,
    )


def _write_rows(file: Path, array: NDArray[np.floating], block: int = 100_000) -> None:
    """Writes an array whose columns are contiguous row by row, without a second one of its size."""
    with artefacts.BlockWriter(file, np.float32, array.shape) as writer:
        for start in range(0, len(array), block):
            writer.write(array[start : start + block])


def scratch_array(folder: Path, shape: tuple[int, ...], dtype: Any, limit: MemoryLimit | None) -> NDArray[Any]:
    """An array of zeros: in memory where the limit allows, else in a mapped file that vanishes with it."""
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if limit is None or limit.holds(size):
        return np.zeros(shape, dtype)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as stream:
            os.posix_fallocate(stream.fileno(), 0, size)  # a full disk says so here, not by killing the process later
            return np.memmap(stream, dtype, "r+", shape=shape)
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror or problem})") from None


def _matching_features(old: LatentBasis, collection: ForwardIndex, kernel: Kernel) -> NDArray[np.int64]:
    """For each feature of the new collection the old one of the same term (and of the same part of a sum), or -1."""
    places = {key: place for place, key in enumerate(_feature_names(old.terms, old.feature_terms))}
    names = _feature_names(collection.terms, kernel.feature_terms(collection))
    return np.array([places.get(name, -1) for name in names], dtype=np.int64)


def _feature_names(table: StringTable, numbers: NDArray[np.int64]) -> list[tuple[str, int]]:
    """(term, how often it came before) of each feature: a sum of kernels has each term once a part."""
    seen: dict[str, int] = {}
    names = []
    for word, number in zip(table.take(np.maximum(numbers, 0)), numbers.tolist(), strict=True):
        name = word if number >= 0 else ""
        seen[name] = seen.get(name, -1) + 1
        names.append((name, seen[name]))
    return names
