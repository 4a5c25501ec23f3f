"""Fitting the latent basis of a collection: the rows of U, computed once and saved beside the index.

K = k_d(F, F) = ΦΦᵀ is never formed: U holds the left singular vectors of the feature matrix Φ (Park & Ramamohanarao, CIKM 2009,
section 3, with the decomposition taken on the other side).
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kernelsearch.core import artefacts
from kernelsearch.core.errors import OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.core.files import copy_tree, not_writable
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.forward import ForwardIndex, StringTable
from kernelsearch.kernels import registry
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.documents import Cosine
from kernelsearch.kernels.saved import from_data, to_data
from kernelsearch.kernels.spectral import Decomposition, Rows, decompose
from kernelsearch.kernels.spectral.feature_rows import LEAST_PARTS, PART, FeatureSource, PartedRows
from kernelsearch.neighbours import Neighbours
from kernelsearch.rerankers.artefact_kinds import ArtefactKind, DocumentChange
from kernelsearch.rerankers.base import OpenedIndex, TrainingData
from kernelsearch.rerankers.klsa import KERNEL_LSA
from kernelsearch.rerankers.klsa.reranker import KIND, VERSION, LatentBasis, validate
from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings

logger = logging.getLogger(__name__)


def fit(index: OpenedIndex, data: TrainingData, settings: KernelLSAFitSettings) -> Path:
    """Fits a basis of `index` (or folds the changed index into the old one), saves it and returns its folder.

    The other parameters are those of `Reranker.fit`. A FAISS index over the rows is saved with it where `settings` ask for one.
    """
    path = data.folder(index, KERNEL_LSA.name)
    limit = data.memory_limit
    memory = 2e9 if limit is None else float(limit.features)

    def finish(folder: Path) -> None:
        if settings.neighbours != "flat":
            rows = np.load(folder / "rows.npy", mmap_mode="r")
            built = Neighbours.build(rows, settings.neighbours, random_state=settings.random_state, limit=limit)
            if built.kind != "flat":  # a flat index is built from the rows when needed
                built.save(folder / f"neighbours.{built.kind}")

    if settings.fold_in:
        old = LatentBasis(path)
        collection = index.field(old.parameters["field"])
        basis = fold_in(path, old, collection, basis_kernel(old, index), memory=memory, finish=finish)
        share = basis.meta["extra"]["folded"] / max(len(collection.live_docs), 1)
        logger.info("klsa: folded in, %.1f%% of the documents came after the decomposition", 100 * share)
    else:
        with data.progress("decomposing", unit="product") as bar:
            reported = 0

            def report(products: int, residual: float) -> None:
                nonlocal reported
                bar.note("" if np.isnan(residual) else f"residual {residual:.1e}")
                bar.update(products - reported)
                reported = products

            basis = fit_basis(
                path,
                index.field(settings.field),
                registry.kernel(settings.kernel, vectors=index.vectors),
                dims=settings.dims or default_dims(len(index.forward.live_docs)),
                memory=memory,
                limit=limit,
                engine=data.engine,
                parts=default_parts(len(index.forward), data.engine),
                random_state=settings.random_state,
                expression=settings.kernel,
                finish=finish,
                progress=report,
            )
    extra = basis.meta["extra"]
    logger.info(
        "klsa: %d dimensions hold %.1f%% of kernel %s's energy (%s, largest relative residual %.1e)",
        *(basis.dims, 100 * extra["energy"], basis.parameters["kernel"], extra["solver"], extra["residual"]),
    )
    return path


def fit_basis(
    path: str | Path,
    collection: ForwardIndex,
    kernel: Kernel,
    *,
    dims: int = 300,
    landmarks: int = 1000,
    memory: float = 2e9,
    limit: MemoryLimit | None = None,
    engine: Engine | None = None,
    parts: int = 1,
    random_state: int = 0,
    expression: str | None = None,
    finish: Callable[[Path], None] = lambda folder: None,
    progress: Callable[[int, float], None] = lambda products, residual: None,
) -> LatentBasis:
    """Decomposes a collection under a kernel, saves the basis in the folder `path` and returns it.

    Parameters
    ----------
    collection, kernel : the documents of a field and the document kernel
    dims : number of latent dimensions
    landmarks : number of documents that approximate a kernel without a feature map (Nyström)
    memory : bytes of Φ that are cached between passes over it
    limit : under a memory limit the solver's vectors are memory-mapped from a file where they would take more than half of it
    engine, parts : the engine that holds Φ, and in how many parts; results depend on `parts`, not on the engine
    random_state : the seed of the decomposition and the landmarks
    expression : the kernel as text, by which one of a plugin's function is made again
    finish : may write further files into the artefact's folder, which has `rows.npy` by then
    progress : called with the number of products with Φ so far and the largest relative residual (nan: not known yet)
    """
    mapped = kernel.has_map and not kernel.wide
    source = FeatureSource(collection, kernel, landmarks=landmarks, memory=memory, random_state=random_state)
    rows: Rows = source.rows() if engine is None or parts == 1 else PartedRows(source, engine, parts)

    def allocate(shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        return scratch_array(Path(path).parent, shape, dtype, limit)

    decomposition = decompose(rows, dims, random_state=random_state, allocate=allocate, progress=progress)
    parameters = {
        "kernel": expression or str(kernel),
        "saved_kernel": to_data(kernel) or (expression and {"expression": expression}),
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
    _save(path, collection, decomposition, rows, terms, keys, parameters, extra, finish, mapped=mapped)
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
        raise OptionError("a basis from landmarks has no feature map to fold documents in by; fit it again", path=old.path)
    places = _matching_features(old, collection, kernel)
    rows = FeatureSource(collection, kernel, memory=memory).rows()
    right = np.zeros((rows.shape[1], old.dims), dtype=rows.dtype)
    known = places >= 0
    right[known] = old.loadings[places[known]]
    captured = sum(float(np.square(block @ right).sum()) for _, _, block in rows)
    new = int(np.isin(collection.document_keys(), old.decomposed, invert=True).sum())
    extra = {**old.meta["extra"], "energy": captured / rows.squared_norm(), "folded": new}
    decomposition = Decomposition(np.asarray(old.values), right, extra["energy"], extra["residual"], extra["solver"], 0)
    terms = kernel.feature_terms(collection)
    _save(path, collection, decomposition, rows, terms, old.decomposed, old.parameters, extra, finish, mapped=True)
    return LatentBasis(path, fingerprint=collection.fingerprint)


def _save(
    path: str | Path,
    collection: ForwardIndex,
    decomposition: Decomposition,
    rows: Rows,
    feature_terms: NDArray[np.int64],
    decomposed: NDArray[np.uint64],
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
            "decomposed": decomposed,
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
        raise not_writable(folder, problem) from None


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


def default_dims(documents: int) -> int:
    """The paper's 300, but at most a quarter of the documents: with as many dimensions as documents U Uᵀ is the identity."""
    return max(1, min(300, documents // 4))


def default_parts(documents: int, engine: Engine) -> int:
    """The number of parts of Φ for this number of `documents`.

    1 where `engine` is this process; for its workers at least LEAST_PARTS, so that a lost part is soon computed again.
    """
    return 1 if engine.name == "local" else max(LEAST_PARTS, -(-documents // PART))


def basis_kernel(basis: LatentBasis, index: OpenedIndex) -> Kernel:
    """The kernel that `basis` was fitted with, with the vectors of an index where it names them."""
    saved = basis.parameters["saved_kernel"]
    if saved is None:
        raise OptionError(
            f"kernel {basis.parameters['kernel']}: isn't saved with the basis, because its class has no name "
            "(kernels.registry.register, or an entry point, gives one)"
        )
    return from_data(saved, index.vectors)


def follow(change: DocumentChange) -> str:
    """Follows `change`: folds the documents into the basis, and returns what to report."""
    LatentBasis(change.folder, fingerprint=change.old.fingerprint)  # refuses a basis of another state of the index
    copy_tree(change.folder, change.target)
    data = TrainingData(output=change.target, progress=change.progress)
    fit(change.new, data, KernelLSAFitSettings(fold_in=True))
    return "keeps its decomposition, new documents are folded in"


BASIS = ArtefactKind(KIND, VERSION, "train {flags} --rerank klsa", place="klsa", validate=validate, follow=follow)
