"""The latent basis of a collection: the rows of U, fitted once and saved beside the index.

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
from numpy.typing import DTypeLike, NDArray

from kernelsearch.core import artefacts, invariants
from kernelsearch.core.errors import InputError, OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.forward import ForwardIndex, StringTable
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.documents import Cosine
from kernelsearch.kernels.saved import to_data
from kernelsearch.kernels.spectral import Decomposition, Rows, decompose
from kernelsearch.kernels.spectral.feature_rows import FeatureSource, PartedRows
from kernelsearch.kernels.vectors import VECTOR_FEATURE

KIND = "latent basis"
VERSION = 1


class LatentBasis:
    """A fitted basis, memory-mapped from the folder `path`; refused with ArtefactError if it has another `fingerprint`.

    - `rows` (documents, dims) float32: U, the documents' latent vectors; norms are at most 1
    - `values` (dims,): singular values, largest first
    - `loadings` (features, dims) float32: each feature's part in each dimension; V where the kernel has a feature map
    - `feature_terms` (features,): the term number of each feature, -1 for the feature of document length, -2 for
      dimensions of vectors
    - `terms`: the terms of the collection by number
    - `decomposed`: keys of the documents that were decomposed, the others were folded in; None for earlier versions' bases
    - `meta`: kernel, parameters, captured energy, residual
    """

    def __init__(self, path: str | Path, *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        self.meta, arrays = artefacts.load(self.path, KIND, VERSION, fingerprint=fingerprint, validate=validate)
        self.rows: NDArray[np.float32] = arrays["rows"]
        self.values: NDArray[np.float64] = arrays["values"]
        self.loadings: NDArray[np.float32] = arrays["loadings"]
        self.feature_terms: NDArray[np.int64] = arrays["feature_terms"]
        self.terms = StringTable(arrays["term_bytes"], arrays["term_ends"])
        self.decomposed: NDArray[np.uint64] | None = arrays.get("decomposed")

    @property
    def dims(self) -> int:
        """The number of latent dimensions."""
        return int(self.rows.shape[1])

    @property
    def parameters(self) -> dict[str, Any]:
        """The kernel, its parameters and the field that the basis was fitted with."""
        return dict(self.meta["parameters"])

    @cached_property
    def norms(self) -> NDArray[np.float32]:
        """Norms of the rows, shape (documents,): the share of each document that the basis captures."""
        return np.asarray(np.linalg.norm(self.rows, axis=1))

    def strongest_terms(self, dimension: int, count: int = 5) -> list[str]:
        """The `count` terms with the largest loadings in a dimension; with a minus where the sign is opposite to the first."""
        column = np.asarray(self.loadings[:, dimension])
        count = min(count, len(column))
        places = np.argpartition(-np.abs(column), count - 1)[:count]
        places = places[np.argsort(-np.abs(column[places]))]
        numbers = self.feature_terms[places]
        others = {-1: "(length)", VECTOR_FEATURE: "(vector)"}
        terms = iter(self.terms.take(numbers[numbers >= 0]))
        words = [next(terms) if number >= 0 else others[number] for number in numbers.tolist()]
        # The sign of a singular vector is arbitrary, so signs are relative to the strongest term.
        same_sign = column[places] * column[places[:1]] >= 0
        return [word if same else f"-{word}" for word, same in zip(words, same_sign, strict=True)]


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for a basis (`meta`) whose `arrays` don't fit each other or have numbers out of range."""
    dims = len(arrays["values"])
    invariants.require_length("values", arrays["values"], dims)
    for name in ("rows", "loadings"):
        if arrays[name].ndim != 2 or arrays[name].shape[1] != dims:
            raise ValueError(f"{name} has shape {arrays[name].shape}, {dims} columns were expected")
    for name in ("rows", "loadings", "values"):
        invariants.require_finite(name, arrays[name])
    if (arrays["values"] < 0).any():
        raise ValueError("values has a negative eigenvalue")
    invariants.require_length("feature_terms", arrays["feature_terms"], len(arrays["loadings"]))
    invariants.require_range("feature_terms", arrays["feature_terms"], VECTOR_FEATURE, len(arrays["term_ends"]))
    invariants.require_offsets("term_ends", arrays["term_ends"], len(arrays["term_bytes"]), first=False)


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
    """Decomposes a collection under a kernel, saves the basis in the folder `path` and returns it.

    Parameters
    ----------
    collection, kernel : the documents of a field and the document kernel
    dims : number of latent dimensions
    solver, tolerance, random_state : of the decomposition, see `kernelsearch.kernels.spectral.decompose`
    landmarks : number of documents that approximate a kernel without a feature map (Nyström)
    memory : bytes of Φ that are cached between passes over it
    limit : under a memory limit the solver's vectors are memory-mapped from a file where they would take more than half of it
    engine, parts : the engine that holds Φ in so many parts; results depend on `parts`, not on the engine
    parameters : saved with the basis besides the kernel, its name and the field
    finish : may write further files into the artefact's folder, which has `rows.npy` by then
    progress : called with the number of products with Φ so far and the largest relative residual (nan: not known yet)
    """
    mapped = kernel.has_map
    source = FeatureSource(collection, kernel, landmarks=landmarks, memory=memory, random_state=random_state)
    rows: Rows = source.rows() if engine is None or parts == 1 else PartedRows(source, engine, parts)

    def allocate(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        return scratch_array(Path(path).parent, shape, dtype, limit)

    decomposition = decompose(
        rows, dims, solver=solver, tolerance=tolerance, random_state=random_state, allocate=allocate, progress=progress
    )
    all_parameters = {
        **(parameters or {}),
        "kernel": str(kernel),
        "saved_kernel": to_data(kernel),
        "landmarks": 0 if mapped else landmarks,
        "field": collection.field,
    }
    extra = {
        "solver": decomposition.solver,
        "energy": decomposition.energy,
        "residual": decomposition.residual,
        "folded": 0,
    }
    terms = kernel.feature_terms(collection) if mapped else np.arange(len(collection.terms))
    keys = collection.document_keys()
    _save(path, collection, decomposition, rows, terms, keys, all_parameters, extra, finish, mapped=mapped)
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
    """A basis for a changed index from the term directions of an older one, without a new decomposition (folding-in).

    Every document's row is Φ V Σ⁻¹ with the index's new statistics and the old V. Terms that the old index didn't have are
    outside the basis, and U's columns are no longer exactly orthonormal. `meta` holds the captured energy on the new collection
    and the number of documents that are new since the last decomposition. The other parameters are those of `fit_basis`.
    Raises OptionError for a basis from landmarks.
    """
    if old.parameters["landmarks"]:
        raise OptionError(f"{old.path}: a basis from landmarks has no feature map to fold documents in by; fit it again")
    places = _matching_features(old, collection, kernel)
    rows = FeatureSource(collection, kernel, memory=memory).rows()
    right = np.zeros((rows.shape[1], old.dims), dtype=rows.dtype)
    known = places >= 0
    right[known] = old.loadings[places[known]]
    captured = sum(float(np.square(block @ right).sum()) for _, _, block in rows)
    decomposed = old.decomposed
    if decomposed is None:  # a basis of an earlier version: only the growth is known
        new = max(len(collection) - (len(old.rows) - old.meta["extra"]["folded"]), 0)
    else:
        new = int(np.isin(collection.document_keys(), decomposed, invert=True).sum())
    extra = {**old.meta["extra"], "energy": captured / rows.squared_norm(), "folded": new}
    decomposition = Decomposition(np.asarray(old.values), right, extra["energy"], extra["residual"], extra["solver"], 0)
    terms = kernel.feature_terms(collection)
    _save(path, collection, decomposition, rows, terms, decomposed, old.parameters, extra, finish, mapped=True)
    return LatentBasis(path, fingerprint=collection.fingerprint)


def _save(
    path: str | Path,
    collection: ForwardIndex,
    decomposition: Decomposition,
    rows: Rows,
    feature_terms: NDArray[np.int64],
    decomposed: NDArray[np.uint64] | None,
    parameters: Mapping[str, Any],
    extra: Mapping[str, Any],
    finish: Callable[[Path], None],
    mapped: bool,
) -> None:
    """Writes a basis, U block by block. Without a feature map, the loadings are those of the documents' terms, Xᵀ U."""

    def fill(folder: Path) -> None:
        file = folder / "loadings.npy"
        term_loadings = np.zeros((0 if mapped else len(collection.terms), len(decomposition.values)), dtype=np.float32)
        if mapped:
            _write_rows(file, decomposition.right)
            if decomposition.right.dtype == np.float32:
                # From here on the same numbers are read from the file: the next step needs the memory.
                decomposition.right = np.load(file, mmap_mode="r")
        with artefacts.BlockWriter(folder / "rows.npy", np.float32, (len(collection), len(decomposition.values))) as writer:
            for start, end, block in decomposition.left(rows):
                writer.write(block)
                if not mapped:
                    term_loadings += Cosine().document_features(collection, np.arange(start, end), np.float32).T @ block
        if not mapped:
            artefacts.write_array(file, term_loadings)
        rows.forget()
        finish(folder)

    term_bytes, term_ends = collection.terms.arrays
    artefacts.save(
        path,
        KIND,
        VERSION,
        parameters=parameters,
        fingerprint=collection.fingerprint,
        extra=extra,
        arrays={
            "values": decomposition.values,
            "feature_terms": feature_terms,
            "term_bytes": term_bytes,
            "term_ends": term_ends,
            **({} if decomposed is None else {"decomposed": decomposed}),
        },
        fill=fill,
    )


def _write_rows(file: Path, array: NDArray[np.floating], block: int = 100_000) -> None:
    """Writes a column-major array in row-major order, without a second array of its size."""
    with artefacts.BlockWriter(file, np.float32, array.shape) as writer:
        for start in range(0, len(array), block):
            writer.write(array[start : start + block])


def scratch_array(folder: Path, shape: tuple[int, ...], dtype: DTypeLike, limit: MemoryLimit | None) -> NDArray[Any]:
    """An array of zeros of `shape` and `dtype`: in memory where `limit` allows, else in a memory-mapped file.

    The file is in `folder` and is deleted with the array. Raises InputError where it can't be written.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if limit is None or limit.holds(size):
        return np.zeros(shape, dtype)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as stream:
            os.posix_fallocate(stream.fileno(), 0, size)  # a full disk is an error here, not a SIGBUS later
            return np.memmap(stream, dtype, "r+", shape=shape)
    except OSError as problem:
        raise InputError(f"{folder}: cannot be written ({problem.strerror or problem})") from None


def _matching_features(old: LatentBasis, collection: ForwardIndex, kernel: Kernel) -> NDArray[np.int64]:
    """For each feature of the new collection the old one of the same term (and the same summand of the kernel), or -1."""
    places = {key: place for place, key in enumerate(_feature_names(old.terms, old.feature_terms))}
    names = _feature_names(collection.terms, kernel.feature_terms(collection))
    return np.array([places.get(name, -1) for name in names], dtype=np.int64)


def _feature_names(table: StringTable, numbers: NDArray[np.int64]) -> list[tuple[str, int]]:
    """(term, number of earlier features of that term) of each feature: a sum of kernels has a feature per term and summand."""
    seen: dict[str, int] = {}
    names = []
    for word, number in zip(table.take(np.maximum(numbers, 0)), numbers.tolist(), strict=True):
        name = word if number >= 0 else ""
        seen[name] = seen.get(name, -1) + 1
        names.append((name, seen[name]))
    return names
