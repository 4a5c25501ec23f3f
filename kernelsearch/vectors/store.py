"""Vectors of an index's documents: one row per row of the forward index, memory-mapped, under a name beside the index."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts, compiled, invariants
from kernelsearch.core.errors import ArtefactError, Flag, InputError, OptionError, quote
from kernelsearch.core.files import not_writable
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.rows import unit_rows
from kernelsearch.forward import ForwardIndex
from kernelsearch.neighbours import CLUSTERED, Neighbours
from kernelsearch.neighbours.codes import Codes, usable
from kernelsearch.neighbours.faiss_index import FLAT_LIMIT, ROUNDED, looked_for
from kernelsearch.vectors import nearness
from kernelsearch.vectors.nearness import Nearness
from kernelsearch.vectors.readers import BLOCK, VectorReader
from kernelsearch.vectors.settings import NAME

NAME_FLAG = Flag("name")
KIND = "set of vectors"
VERSION = 1
FOLDER = "vectors"
#: Tokens of a document that an encoder is taken to read where neither it nor the import says so: those of all-MiniLM.
MAX_TOKENS = 256
#: Unknown ids that a message names.
NAMED_IDS = 3
#: Rows that are scored at a time, so that their float32 values stay in the processor's cache: 1,000 rows at once took twice as
#: long (`python -m tools.bench.method vectors`).
SCORED_ROWS = 128
#: Rows that are written at a time.
ROWS = 20_000


class DocumentVectors:
    """The vectors of an index's documents under one name, memory-mapped from `path`; another `fingerprint` is refused.

    - `matrix` (rows, dims) float16 or float32: a document's vector; zeros where it has none
    - `present` (rows,): whether a document has a vector
    - `max_tokens`: tokens of a document's text that its vector is made from at most; 0: the whole text
    - `meta`: the artefact's description
    """

    def __init__(self, path: str | Path, *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        self.name = self.path.name
        self.meta, arrays = artefacts.load(self.path, KIND, VERSION, fingerprint=fingerprint, validate=validate)
        self.matrix: NDArray[np.floating] = np.asarray(arrays["matrix"])
        self.present: NDArray[np.bool_] = np.asarray(arrays["present"])
        self.normalised: bool = self.meta["parameters"]["normalise"]
        self.encoder: dict[str, Any] | None = self.meta["extra"].get("encoder")
        self.max_tokens = _max_tokens(self.meta["parameters"], self.encoder or {})
        #: How near the documents lie to each other, to compare queries with.
        self.nearness = Nearness.load(arrays)

    def __repr__(self) -> str:
        count = int(self.present.sum())
        return f"DocumentVectors({str(self.path)!r}: {count} of {len(self)} documents, {self.dims} dimensions)"

    def __reduce__(self) -> tuple[Any, ...]:
        return DocumentVectors, (self.path.absolute(),)

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def dims(self) -> int:
        """The dimensions of a vector."""
        return int(self.matrix.shape[1])

    def take(self, docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """The vectors of the documents in the rows `docs`, shape (documents, dims); zeros for those without one."""
        return np.asarray(self.matrix[docs], dtype=np.float32)

    def unit(self, docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """As `take` of `docs`, at unit length."""
        return unit_rows(self.take(docs))

    def scores(self, vector: NDArray[np.floating], docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """Inner products of `vector` (dims,) with those of the rows `docs`, shape (documents,); NaN where there is none."""
        products = self._products(np.ascontiguousarray(vector, dtype=np.float32), docs)
        products[~self.present[docs]] = np.nan
        return products

    def _products(self, vector: NDArray[np.float32], docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """As `scores`, 0 where there is no vector."""
        products = np.empty(len(docs), dtype=np.float32)
        library = compiled.loops()
        if library is None or self.matrix.dtype != np.float16 or not self.matrix.flags.c_contiguous:
            for start in range(0, len(docs), SCORED_ROWS):
                products[start : start + SCORED_ROWS] = self.take(docs[start : start + SCORED_ROWS]) @ vector
            return products
        rows, shape = np.ascontiguousarray(docs, dtype=np.int32), self.matrix.shape
        compiled.call(
            library.kernelsearch_half_products,
            *((self.matrix, np.float16, *shape), *shape, (vector, np.float32, self.dims)),
            *((rows, np.int32, len(rows)), len(rows), (products, np.float32, len(rows))),
        )
        return products

    def nearest(self, vectors: NDArray[np.floating], count: int) -> list[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        """For each row of `vectors` (queries, dims), the `count` documents with the largest inner products: rows and products.

        Best first. Documents without a vector are never among them.
        """
        # A vector of zeros, which a document without one has, would be nearer than those with negative products.
        among = None if self._complete else self.present
        queries = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        if self._codes is not None:
            return list(self._codes.search(queries, count, self._products, among=among))
        if self.saved_kind in ROUNDED:
            rows, _ = self.neighbours.search(queries, looked_for(count, self.saved_kind), among=among)
            return [self._best(query, near[near >= 0], count) for query, near in zip(queries, rows, strict=True)]
        rows, products = self.neighbours.search(queries, count, among=among)
        return [
            (numbers[numbers >= 0].astype(np.int32), values[numbers >= 0])
            for numbers, values in zip(rows, products, strict=True)
        ]

    def _best(
        self, vector: NDArray[np.float32], rows: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The `count` of `rows` with the largest exact products with `vector`, best first, and these; equal ones in order."""
        docs = rows.astype(np.int32)
        products = self._products(vector, docs)
        order = np.argsort(-products, kind="stable")[:count]
        return docs[order], products[order]

    @cached_property
    def _complete(self) -> bool:
        """Whether all documents have a vector."""
        return bool(self.present.all())

    @cached_property
    def neighbours(self) -> Neighbours:
        """The FAISS index over the vectors: the saved one, or an exact one made from the vectors."""
        kind = self.saved_kind
        if kind is None:
            return Neighbours.build(self.matrix, "flat")
        return Neighbours.load(self.path / f"neighbours.{kind}", kind, rows=len(self), dims=self.dims)

    @cached_property
    def saved_kind(self) -> str | None:
        """The kind of the saved FAISS index; None where there is none, and a search compares all vectors."""
        return next((kind for kind in (*CLUSTERED, "hnsw") if (self.path / f"neighbours.{kind}").exists()), None)

    @cached_property
    def _codes(self) -> Codes | None:
        """What an exact search reads instead of all vectors; None where a FAISS index is searched."""
        return Codes(self.matrix) if self.saved_kind is None and usable(self.matrix) else None


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for `arrays` that don't fit each other or `meta`, and for values that aren't finite."""
    if arrays["matrix"].ndim != 2:
        raise ValueError(f"matrix has shape {arrays['matrix'].shape}")
    invariants.require_finite("matrix", arrays["matrix"])
    invariants.require_kind("present", arrays["present"], "b")
    invariants.require_length("present", arrays["present"], len(arrays["matrix"]))
    nearness.validate(arrays, arrays["matrix"].shape[1])
    bool(meta["parameters"]["normalise"])
    limit = _max_tokens(meta["parameters"], meta["extra"].get("encoder") or {})
    if not isinstance(limit, int) or limit < 0:
        raise ValueError(f"max_tokens is {limit!r}")


def _max_tokens(parameters: Mapping[str, Any], encoder: Mapping[str, Any]) -> int:
    """Tokens of a text that its vector is made from at most, 0 for the whole text: as imported, or as the encoder declares."""
    declared = 0 if encoder.get("long_texts") == "mean" else encoder.get("max_length", MAX_TOKENS)
    limit: int = parameters.get("max_tokens", declared)
    return limit


@dataclass(frozen=True)
class Stored:
    """What an import did: `vectors` stored of `dims` dimensions, live documents `without` one, ids that the index lacks."""

    vectors: int
    dims: int
    without: int
    unknown: int = 0
    examples: tuple[str, ...] = ()

    def __str__(self) -> str:
        text = f"{self.vectors} vectors of {self.dims} dimensions"
        if self.without:
            text += f"; {self.without} documents have none"
        if self.unknown:
            more = ", ..." if self.unknown > len(self.examples) else ""
            text += f"; {self.unknown} ids are not in the index ({', '.join(self.examples)}{more})"
        return text


class VectorWriter:
    """A file of vectors by row, written in any order. It is mapped, so that memory doesn't grow with it."""

    def __init__(self, file: Path, rows: int, dims: int, dtype: str, normalise: bool, source: str, *, new: bool = True) -> None:
        """Makes the file, or goes on with the one that is there where it isn't `new`; `source` is named in messages.

        The other parameters describe the vectors: `rows` of `dims` numbers of `dtype`, scaled to length 1 if `normalise`.
        """
        self.normalise, self.source, self.dtype = normalise, source, np.dtype(dtype)
        if new:
            self._make(file, rows, dims)
        self.matrix: NDArray[Any] = np.load(file, mmap_mode="r+") if rows * dims else np.load(file)

    def _make(self, file: Path, rows: int, dims: int) -> None:
        try:
            with open(file, "wb") as stream:
                header = {"descr": self.dtype.str, "fortran_order": False, "shape": (rows, dims)}
                np.lib.format.write_array_header_1_0(stream, header)
                stream.flush()
                size = stream.tell() + rows * dims * self.dtype.itemsize
                os.posix_fallocate(stream.fileno(), 0, size)  # a full disk is reported here, not by a signal later
        except OSError as problem:
            raise not_writable(file, problem) from None

    def put(self, rows: NDArray[np.integer], vectors: NDArray[np.float32], ids: Sequence[str]) -> None:
        """Stores `vectors` (rows, dims) as those of `rows`; `ids` name the rows in messages.

        Raises InputError for a value too large for float16.
        """
        if self.normalise:
            vectors = unit_rows(vectors)
        with np.errstate(over="ignore"):
            stored = vectors.astype(self.dtype)
        if self.dtype == np.float16 and not np.isfinite(stored).all():
            place = int(np.flatnonzero(~np.isfinite(stored).all(axis=1))[0])
            raise InputError(
                f"id {ids[place]!r}: a value too large for float16; ",
                Flag("dtype", value="float32"),
                " holds it",
                path=self.source,
            )
        self.matrix[rows] = stored

    def close(self) -> None:
        """Writes everything to disk."""
        if isinstance(self.matrix, np.memmap):
            self.matrix.flush()


def import_vectors(
    folder: Path,
    forward: ForwardIndex,
    source: VectorReader,
    *,
    dtype: str = "float16",
    normalise: bool = False,
    encoder: Mapping[str, Any] | None = None,
    max_tokens: int | None = None,
    neighbours: str = "auto",
    limit: MemoryLimit | None = None,
    progress: Progress = silent,
) -> Stored:
    """Stores the vectors of a file as the artefact `folder`, replacing an older one once all are stored.

    Parameters
    ----------
    folder : where the artefact is kept; see `place`
    forward : the forward index whose rows the vectors follow
    source : the file
    dtype : float16 or float32, the type of the stored values
    normalise : bring every vector to unit length, so that inner products are cosines
    encoder : the declaration of the encoder that makes query vectors, if there is one
    max_tokens : tokens of a document that its vector was made from at most, 0 for whole texts; None: as the encoder declares,
        or MAX_TOKENS
    neighbours : kind of the FAISS index for retrieval; `auto` chooses by the number of vectors
    limit : bounds the memory of the import and of the FAISS index
    progress : gets the progress, in vectors

    Raises InputError where the file can't be used, has an id twice, or no id of the index.
    """
    block = BLOCK if limit is None else min(BLOCK, limit.free // 16)
    present = np.zeros(len(forward), dtype=bool)
    unknown: list[str] = []
    counts = {"unknown": 0, "dims": 0}

    def fill(partial: Path) -> None:
        writer: VectorWriter | None = None
        with progress("vectors", total=source.total, unit="vector") as bar:
            for part in source.blocks(block):
                if writer is None:
                    counts["dims"] = part.vectors.shape[1]
                    writer = VectorWriter(
                        partial / "matrix.npy", len(forward), counts["dims"], dtype, normalise, str(source.path)
                    )
                rows = forward.rows_of(part.ids)
                known = np.flatnonzero(rows >= 0)
                missing = np.flatnonzero(rows < 0)
                counts["unknown"] += len(missing)
                unknown.extend(part.ids[place] for place in missing[: NAMED_IDS - len(unknown)].tolist())
                _refuse_repeated(part.ids, rows, known, present, source, part.first)
                present[rows[known]] = True
                writer.put(rows[known], part.vectors[known], [part.ids[place] for place in known.tolist()])
                bar.update(len(part.ids))
        assert writer is not None  # a file without rows is refused
        writer.close()
        if not present.any():
            raise InputError(
                f"none of its {counts['unknown']} ids is in the index, such as {', '.join(unknown)}", path=source.path
            )
        finish(partial, present, neighbours, limit)

    save_vectors(folder, forward, fill, dtype=dtype, normalise=normalise, encoder=encoder, max_tokens=max_tokens)
    without = int((forward.live & ~present).sum())
    return Stored(int(present.sum()), counts["dims"], without, counts["unknown"], tuple(unknown))


def finish(partial: Path, present: NDArray[np.bool_], neighbours: str, limit: MemoryLimit | None) -> None:
    """Writes what belongs to a finished matrix in the folder `partial`: which rows have a vector, how near they are to each
    other, and a FAISS index.

    `present` (rows,) says which rows have one; `neighbours` and `limit` are those of `import_vectors`. An exact index isn't
    written.
    """
    matrix = np.load(partial / "matrix.npy", mmap_mode="r")
    if neighbours == "auto":  # the exact products of what is found are computed anyway, so a few bits suffice to find it
        neighbours = "flat" if len(matrix) <= FLAT_LIMIT else "ivf-pq4"
    for name, array in {"present": present, **Nearness.measure(matrix, present).arrays()}.items():
        artefacts.write_array(partial / f"{name}.npy", array)
    if neighbours == "flat":
        return
    built = Neighbours.build(matrix, neighbours, block=ROWS, limit=limit)
    if built.kind != "flat":  # an exact index is made from the vectors when it is needed
        built.save(partial / f"neighbours.{built.kind}")


def save_vectors(
    folder: Path,
    forward: ForwardIndex,
    fill: Callable[[Path], None],
    *,
    dtype: str,
    normalise: bool,
    encoder: Mapping[str, Any] | None,
    max_tokens: int | None = None,
) -> None:
    """Writes the artefact `folder` for the rows of `forward`; `fill` makes its files in the folder that it gets.

    `dtype`, `normalise`, `encoder` and `max_tokens` are those of `import_vectors` and are saved with it.
    """
    parameters = {"dtype": dtype, "normalise": normalise, "max_tokens": max_tokens}
    artefacts.save(
        folder,
        KIND,
        VERSION,
        parameters={key: value for key, value in parameters.items() if value is not None},
        extra={"encoder": dict(encoder)} if encoder else {},
        fingerprint=forward.fingerprint,
        fill=fill,
    )


def place(index_artefacts: Path, name: str, label: Flag | str = NAME_FLAG) -> Path:
    """The folder of the vectors `name` among `index_artefacts`. Raises OptionError, with `label`, for other characters."""
    if not re.fullmatch(NAME, name):
        raise OptionError(label, f": {quote(name)}: letters, digits, hyphens and underscores only")
    return index_artefacts / FOLDER / name


def names(index_artefacts: Path) -> list[str]:
    """The names of the sets of vectors in `index_artefacts`, the folder for what is derived from an index, sorted."""
    folder = index_artefacts / FOLDER
    if not folder.is_dir():
        return []
    return sorted(path.name for path in folder.iterdir() if not path.name.startswith(".") and (path / "meta.json").is_file())


def current_names(index_artefacts: Path, fingerprint: str) -> list[str]:
    """As `names` of `index_artefacts`, only those that belong to the index's present state `fingerprint`."""
    return [
        name
        for name in names(index_artefacts)
        if artefacts.read_meta(place(index_artefacts, name), KIND, VERSION)["fingerprint"] == fingerprint
    ]


def open_documents(index_artefacts: Path, name: str | None, *, fingerprint: str, index: str, flags: str) -> DocumentVectors:
    """The vectors of an index under a name; None means the only ones that it has.

    Parameters
    ----------
    index_artefacts : the folder for what is derived from the index
    fingerprint : the index's present state
    index : its name in messages
    flags : the command-line flags that name it, for the command that makes vectors

    Raises OptionError without a name where there are several, ArtefactError where there are no vectors of that name, or only
    those of an earlier state of the index.
    """
    known = names(index_artefacts)
    command = f"python -m kernelsearch.vectors {flags} --name {name or 'NAME'} --input FILE"
    if name is None:
        if len(known) > 1:
            raise OptionError(
                f"{index}: has vectors {', '.join(known)}; choose one, as in ", Flag("name", "vectors", value=known[0])
            )
        if not known:
            raise ArtefactError(f"has no vectors yet; import some with: {command}", path=index)
        name = known[0]
    folder = place(index_artefacts, name, "name of vectors")
    if name not in known:
        others = f"; it has {', '.join(known)}" if known else ""
        raise ArtefactError(f"has no vectors named {name!r}{others}; import them with: {command}", path=index)
    documents = DocumentVectors(folder)
    if documents.meta["fingerprint"] != fingerprint:
        raise ArtefactError(f"these vectors were made before the index changed; import them again with: {command}", path=folder)
    return documents


def _refuse_repeated(
    ids: list[str],
    rows: NDArray[np.int32],
    known: NDArray[np.int64],
    present: NDArray[np.bool_],
    source: VectorReader,
    first: int,
) -> None:
    """Refuses an id that was met before, in this block or in an earlier one."""
    values, places = np.unique(rows[known], return_index=True)
    repeated = np.setdiff1d(np.arange(len(known)), places)
    again = known[repeated] if len(repeated) else known[places[present[values]]]
    if len(again):
        row = int(again.min())
        raise InputError(f"{source.row} {first + row}: id {ids[row]!r} appears twice", path=source.path)
