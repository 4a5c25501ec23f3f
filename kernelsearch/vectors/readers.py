"""Files of vectors, read in blocks: numpy's .npy and .npz, JSON lines, FAISS folders, Parquet.

A file gives ids and vectors, row by row. What can't be used (a vector of another length, a value that is not finite) is refused
with the file and the row.
"""

from __future__ import annotations

import math
import sys
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError, short
from kernelsearch.core.reading import json_lines, lines, open_bytes, open_file, report_damage
from kernelsearch.core.rows import MAX_DIMS
from kernelsearch.neighbours.faiss_files import check_file
from kernelsearch.neighbours.faiss_index import load_faiss

#: Names that files give to the ids and to the vectors; the first that a file has is read.
ID_NAMES = ("ids", "id", "docids", "docid", "docnos", "docno", "qids", "qid", "_id")
VECTOR_NAMES = ("vectors", "vector", "embeddings", "embedding", "emb")
#: What zipfile raises for a damaged file; RuntimeError for one that needs a password.
UNREADABLE_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError)
#: Bytes of a block of float32 vectors.
BLOCK = 16 << 20


@dataclass(frozen=True)
class VectorBlock:
    """Some rows of a file: `ids` (n), `vectors` (n, dims) float32, and the number of the first row, counted from 1."""

    ids: list[str]
    vectors: NDArray[np.float32]
    first: int


class VectorReader(ABC):
    """The file `path` of vectors. `total` is its number of rows where the file says so."""

    #: What a row is called in messages.
    row = "row"

    def __init__(self, path: Path) -> None:
        self.path = path
        self.total: int | None = None

    @abstractmethod
    def read(self, block: int) -> Iterator[tuple[list[str], Any]]:
        """(ids, vectors) of about `block` bytes at a time; unchecked."""

    def blocks(self, block: int = BLOCK, dims: int | None = None) -> Iterator[VectorBlock]:
        """The rows in blocks of about `block` bytes, checked.

        All vectors have `dims` dimensions (None: those of the first) and finite values.

        Raises InputError with the file and the row that can't be used.
        """
        first = 1
        for ids, raw in self.read(block):
            vectors = self._rectangular(ids, raw, first, dims)
            dims = vectors.shape[1]
            bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
            if len(bad):
                raise InputError("a value that is not a finite number", path=self._place(ids, first, int(bad[0])))
            yield VectorBlock(ids, vectors, first)
            first += len(ids)
        if first == 1:
            raise InputError("no vectors in it", path=self.path)

    def _rectangular(self, ids: list[str], raw: Any, first: int, dims: int | None) -> NDArray[np.float32]:
        """The vectors as one array, all of the same length."""
        if not isinstance(raw, np.ndarray):
            try:
                sizes = [len(vector) for vector in raw]
            except TypeError:
                raise InputError(f"after {self.row} {first - 1}: a vector that is no list of numbers", path=self.path) from None
            wanted = dims if dims is not None else sizes[0]
            for place, size in enumerate(sizes):
                if size != wanted or not size:
                    expected = f" where {wanted} were expected" if wanted else ", at least 1 was expected"
                    raise InputError(f"{size} dimensions{expected}", path=self._place(ids, first, place))
            refuse_dims(self.path, wanted)
            try:
                with np.errstate(over="ignore"):
                    return np.asarray(raw, dtype=np.float32)
            except (TypeError, ValueError, OverflowError):
                for place, vector in enumerate(raw):
                    if not all(isinstance(value, int | float) for value in vector):
                        raise InputError("a value that is not a number", path=self._place(ids, first, place)) from None
                    if any(isinstance(value, int) and abs(value) > sys.float_info.max for value in vector):
                        raise InputError("a value that is not a finite number", path=self._place(ids, first, place)) from None
                raise
        if raw.ndim != 2 or raw.dtype.kind not in "fiu":
            raise InputError(
                f"vectors of shape {raw.shape} and type {raw.dtype}; a table of numbers was expected", path=self.path
            )
        refuse_dims(self.path, raw.shape[1])
        if dims is not None and raw.shape[1] != dims:
            raise InputError(f"{raw.shape[1]} dimensions where {dims} were expected", path=self._place(ids, first, 0))
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(raw, dtype=np.float32)

    def _place(self, ids: Sequence[str], first: int, place: int) -> str:
        return f"{self.path}: {self.row} {first + place} (id {ids[place]!r})"


class ArrayReader(VectorReader):
    """Vectors in memory: `vectors` (n, dims) and the `ids` of their rows."""

    def __init__(self, ids: Sequence[str], vectors: NDArray[np.floating]) -> None:
        super().__init__(Path("vectors"))
        self.ids = [str(name) for name in ids]
        self.vectors = np.asarray(vectors)
        self.total = len(self.ids)
        if self.vectors.ndim != 2:
            raise InputError(f"an array of shape {self.vectors.shape}; one row per document was expected", path=self.path)
        if len(self.vectors) != self.total:
            raise InputError(f"{len(self.vectors)} rows, but {self.total} ids", path=self.path)

    def read(self, block: int) -> Iterator[tuple[list[str], Any]]:
        step = max(1, block // (4 * max(1, self.vectors.shape[1])))
        for start in range(0, len(self.ids), step):
            yield self.ids[start : start + step], self.vectors[start : start + step]


class NpyReader(VectorReader):
    """A `.npy` file of vectors, with the ids in a second file: text with one id per line, or a `.npy` of strings."""

    def __init__(self, path: Path, ids: Path | None) -> None:
        super().__init__(path)
        if ids is None:
            raise OptionError("a .npy file has no ids; ", Flag("ids"), " names the file of them, one per line", path=path)
        self.ids = ids
        with open_bytes(path) as stream:
            self.total = _npy_header(stream, path)[0][0]

    def read(self, block: int) -> Iterator[tuple[list[str], Any]]:
        if self.ids.suffix == ".npy":
            with open_bytes(self.ids) as stream:
                names = [str(name) for part in _npy_rows(stream, self.ids, block) for name in part]
        else:
            names = [line for _, line in lines(self.ids) if line]
        if len(names) != self.total:
            raise InputError(f"{len(names)} ids for the {self.total} vectors of {self.path}", path=self.ids)
        start = 0
        with open_bytes(self.path) as stream:
            for part in _npy_rows(stream, self.path, block):
                yield names[start : start + len(part)], part
                start += len(part)


class NpzReader(VectorReader):
    """A `.npz` file with `ids` and `vectors`, compressed or not. It is never held in memory as a whole."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        with report_damage(path, ".npz file", *UNREADABLE_ZIP), open_file(path) as file, zipfile.ZipFile(file) as archive:
            members = [name.removesuffix(".npy") for name in archive.namelist()]
            self.ids, self.vectors = _choose(members, ID_NAMES, path), _choose(members, VECTOR_NAMES, path)
            with archive.open(f"{self.vectors}.npy") as stream:
                self.total = _npy_header(stream, path)[0][0]
            with archive.open(f"{self.ids}.npy") as stream:
                names = _npy_header(stream, path)[0][0]
        if names != self.total:
            raise InputError(f"{names} ids for {self.total} vectors", path=path)

    def read(self, block: int) -> Iterator[tuple[list[str], Any]]:
        with (
            report_damage(self.path, ".npz file", *UNREADABLE_ZIP),
            open_file(self.path) as file,
            zipfile.ZipFile(file) as archive,
            archive.open(f"{self.ids}.npy") as names,
            archive.open(f"{self.vectors}.npy") as values,
        ):
            waiting: list[str] = []
            name_blocks = _npy_rows(names, self.path, block)
            for part in _npy_rows(values, self.path, block):
                while len(waiting) < len(part):
                    waiting += [str(name) for name in next(name_blocks)]
                yield waiting[: len(part)], part
                waiting = waiting[len(part) :]


class JsonReader(VectorReader):
    """JSON lines with `id` and `vector`, as Pyserini's encoder writes them; gzipped or not."""

    row = "line"

    def read(self, block: int) -> Iterator[tuple[list[str], Any]]:
        ids: list[str] = []
        vectors: list[list[float]] = []
        size = 0
        for number, record in json_lines(self.path):
            try:
                name, vector = record[_choose(record, ID_NAMES)], record[_choose(record, VECTOR_NAMES)]
            except KeyError:
                fields = ", ".join(record) or "nothing"
                raise InputError(f"id and vector were expected, found {short(fields)}", path=self.path, line=number) from None
            if not isinstance(vector, list):
                raise InputError("the vector is no list of numbers", path=self.path, line=number)
            ids.append(str(name))
            vectors.append(vector)
            size += 4 * len(vector)
            if size >= block:
                yield ids, vectors
                ids, vectors, size = [], [], 0
        if ids:
            yield ids, vectors


class FaissReader(VectorReader):
    """A folder of Pyserini's: `index`, a FAISS index, and `docid`, one id per line. Quantised vectors are read as stored."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        faiss = load_faiss()
        check_file(path / "index")
        with report_damage(path / "index", "FAISS index", RuntimeError, MemoryError):
            # Mapped, where FAISS is new enough: the vectors of a flat index then need no memory.
            self.index = faiss.read_index(str(path / "index"), getattr(faiss, "IO_FLAG_MMAP_IFC", 0))
        self.ids = [line for _, line in lines(path / "docid") if line]
        self.total = int(self.index.ntotal)
        if self.index.d < 1:
            raise InputError(f"damaged, vectors of {self.index.d} dimensions", path=path / "index")
        if len(self.ids) != self.total:
            raise InputError(f"{len(self.ids)} ids for the {self.total} vectors of {path / 'index'}", path=path / "docid")

    def read(self, block: int) -> Iterator[tuple[list[str], Any]]:
        faiss = load_faiss()
        inverted = faiss.try_extract_index_ivf(self.index)
        kind = type(faiss.downcast_index(self.index))
        if issubclass(kind, faiss.IndexIVFFastScan):  # FAISS 1.9 ends the process when it is asked for them
            raise InputError(f"{kind.__name__} is not read; convert it to a flat index", path=self.path / "index")
        if inverted is not None:
            # Also checks that the numbers of the vectors in the lists are in range.
            with report_damage(self.path / "index", "FAISS index", RuntimeError, MemoryError):
                inverted.make_direct_map()
        try:
            self.index.reconstruct(0)  # the call for many rows ends the process where this one raises
        except RuntimeError as problem:
            reason = str(problem).splitlines()[-1][-80:]
            raise InputError(f"{kind.__name__} doesn't give its vectors back ({reason})", path=self.path / "index") from None
        size = max(1, block // (4 * self.index.d))
        for start in range(0, len(self.ids), size):
            ids = self.ids[start : start + size]
            with report_damage(self.path / "index", "FAISS index", RuntimeError, MemoryError):
                vectors = self.index.reconstruct_n(start, len(ids))
            yield ids, vectors


class ParquetReader(VectorReader):
    """A Parquet file with a column of ids and a column of lists. Needs pyarrow."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise OptionError("reading Parquet needs pyarrow; pip install pyarrow", path=path) from None
        self._errors = (ArrowException, OSError, UnicodeDecodeError)
        with report_damage(path, "Parquet file", *self._errors):
            self.file = parquet.ParquetFile(open_file(path))
            names = self.file.schema_arrow.names
        self.total = self.file.metadata.num_rows
        self.ids, self.vectors = _choose(names, ID_NAMES, path), _choose(names, VECTOR_NAMES, path)

    def read(self, block: int) -> Iterator[tuple[list[str], Any]]:
        with report_damage(self.path, "Parquet file", *self._errors):
            yield from self._batches(block)

    def _batches(self, block: int) -> Iterator[tuple[list[str], Any]]:
        # A row's size is known after the first few.
        for batch in self.file.iter_batches(batch_size=max(64, block // 4096), columns=[self.ids, self.vectors]):
            names = [str(name) for name in batch.column(self.ids).to_pylist()]
            column = batch.column(self.vectors)
            sizes = column.value_lengths().to_numpy(zero_copy_only=False) if hasattr(column, "value_lengths") else None
            if sizes is not None and not column.null_count and len(sizes) and (sizes == sizes[0]).all() and sizes[0]:
                values = column.flatten().to_numpy(zero_copy_only=False)
                yield names, values.reshape(len(names), -1)
            else:
                yield names, [vector or [] for vector in column.to_pylist()]


def open_vectors(path: str | Path, ids: str | Path | None = None) -> VectorReader:
    """The reader of a file (or of a FAISS folder of Pyserini's), chosen by its name.

    Parameters
    ----------
    path : `.npy`, `.npz`, `.jsonl`, `.jsonl.gz` or `.parquet`; or a folder with `index` and `docid`, or with one such file
    ids : the ids of a `.npy` file

    Raises InputError for a path that is none of these.
    """
    path = Path(path)
    if path.is_dir():
        if (path / "index").is_file() and (path / "docid").is_file():
            return FaissReader(path)
        inside = [file for file in sorted(path.iterdir()) if _kind(file)]
        if len(inside) != 1:
            names = ", ".join(file.name for file in inside[:4]) or "nothing of the kind"
            raise InputError(f"neither index and docid (FAISS) nor one file of vectors in this folder, but {names}", path=path)
        path = inside[0]
    if not path.is_file():
        raise InputError("no such file", path=path)
    kind = _kind(path)
    if kind == "npy":
        return NpyReader(path, Path(ids) if ids is not None else None)
    if ids is not None:
        raise OptionError(f"{path} has ids of its own; only a .npy file needs them", option=Flag("ids"))
    if kind == "npz":
        return NpzReader(path)
    if kind == "parquet":
        return ParquetReader(path)
    if kind == "json":
        return JsonReader(path)
    raise InputError("not a file of vectors by its name; known: .npy, .npz, .jsonl, .jsonl.gz, .parquet", path=path)


def _kind(path: Path) -> str | None:
    name = path.name.lower()
    for suffix, kind in (
        (".npy", "npy"), (".npz", "npz"), (".parquet", "parquet"), (".jsonl", "json"), (".jsonl.gz", "json"), (".json", "json"),
    ):  # fmt: skip
        if name.endswith(suffix):
            return kind
    return None


def refuse_dims(path: Path, dims: int) -> None:
    """Raises InputError where vectors of `dims` dimensions, which the file `path` has, cannot be stored."""
    if not 1 <= dims <= MAX_DIMS:
        raise InputError(f"vectors of {dims} dimensions; between 1 and {MAX_DIMS} can be stored", path=path)


def _choose(names: Collection[str], wanted: Sequence[str], path: Path | None = None) -> str:
    """The first of the wanted names that is there."""
    for name in wanted:
        if name in names:
            return name
    if path is None:
        raise KeyError(wanted[0])
    raise InputError(f"none of {', '.join(wanted)} in it, but {short(', '.join(map(str, names))) or 'nothing'}", path=path)


def _npy_header(stream: IO[bytes], path: Path) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Shape and type of an array in numpy's format; the stream is then at its data."""
    # The header is parsed as Python.
    errors = (ValueError, EOFError, TypeError, SyntaxError, TokenError, OverflowError, MemoryError)
    with report_damage(path, "array of numpy's", *errors):
        version = np.lib.format.read_magic(stream)
        if version == (1, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_1_0(stream)
        elif version == (2, 0):
            shape, fortran, dtype = np.lib.format.read_array_header_2_0(stream)
        else:
            raise ValueError(f"version {version}")
    if dtype.hasobject:
        raise InputError("holds Python objects, which are not read; save ids as an array of strings", path=path)
    if fortran and len(shape) > 1:
        raise InputError("columns are contiguous (Fortran order); save np.ascontiguousarray of it", path=path)
    if not shape:
        raise InputError("a single value; an array was expected", path=path)
    if min(shape) < 0:
        raise InputError(f"damaged, an array of shape {short(str(shape))}", path=path)
    if len(shape) == 2:
        refuse_dims(path, shape[1])
    return shape, dtype


def _npy_rows(stream: IO[bytes], path: Path, block: int) -> Iterator[NDArray[Any]]:
    """The rows of an array in numpy's format, about `block` bytes at a time."""
    shape, dtype = _npy_header(stream, path)
    width = math.prod(shape[1:]) * dtype.itemsize
    size = max(1, block // max(width, 1))
    for start in range(0, shape[0], size):
        count = min(size, shape[0] - start)
        data = bytearray()
        while len(data) < count * width and (more := stream.read(min(count * width - len(data), BLOCK))):
            data += more
        if len(data) < count * width:
            raise InputError(f"cut short: {start + len(data) // max(width, 1)} of {shape[0]} rows are there", path=path)
        yield np.frombuffer(data, dtype=dtype).reshape(count, *shape[1:])
