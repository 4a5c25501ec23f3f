"""Fitted state on disk: a folder of `.npy` files, memory-mapped on load, and a `meta.json` that describes them.

No pickle: loading an untrusted file must not run code. `meta.json` records the size and the checksum of every file and its own,
so that a damaged file is refused instead of giving wrong scores. What a checksum can't tell, a reader checks with `validate`:
numbers in range and arrays of matching lengths, because native code trusts them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tokenize import TokenError
from typing import Any, Literal

import numpy as np
from numpy.typing import DTypeLike, NDArray

from kernelsearch.core import checksums
from kernelsearch.core.errors import ArtefactError, InputError, short
from kernelsearch.core.files import not_writable, write_folder
from kernelsearch.core.reading import parse_json
from kernelsearch.core.streams import raise_shortage

#: Checks the content of an artefact, (meta, arrays by name), and raises ArtefactError or ValueError with the reason.
Validate = Callable[[dict[str, Any], dict[str, NDArray[Any]]], None]
#: What numpy raises for a damaged `.npy` file; its header is parsed as Python.
_UNREADABLE = (ValueError, TypeError, EOFError, MemoryError, SyntaxError, TokenError, FileNotFoundError)
_loading = threading.Lock()


def save(
    path: str | Path,
    kind: str,
    version: int,
    *,
    arrays: Mapping[str, NDArray[Any]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    fingerprint: str = "",
    extra: Mapping[str, Any] | None = None,
    fill: Callable[[Path], None] | None = None,
) -> None:
    """Writes an artefact atomically, replacing an older one.

    `kind` and `version` name the format. `arrays` are written to `NAME.npy`; `fill(folder)` may write further files (large
    arrays in blocks, a FAISS index). `fingerprint` is that of the index which the artefact belongs to. `parameters` and `extra`
    are stored in `meta.json`: what the artefact was made with, and what else a reader needs. Raises InputError where `path`
    holds something that is no artefact.
    """
    refuse_foreign(path)
    with write_folder(path, replace=True) as folder:
        for name, array in (arrays or {}).items():
            write_array(folder / f"{name}.npy", array)
        if fill is not None:
            fill(folder)
        meta: dict[str, Any] = {
            "kind": kind,
            "version": version,
            "fingerprint": fingerprint,
            "parameters": dict(parameters or {}),
            "extra": dict(extra or {}),
            "files": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
            "checksums": {file.name: checksums.file_checksum(file) for file in sorted(folder.iterdir())},
        }
        # Through JSON first, so that the checksum is that of what will be read.
        meta = checksums.signed(json.loads(json.dumps(meta)))
        (folder / "meta.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
        description = checksums.content_checksum(meta)
        checksums.note_verified(folder, meta["files"], meta["checksums"], description=description)


def refuse_foreign(path: str | Path) -> None:
    """Raises InputError where `path` is a file, or a folder with something that is no part of an artefact: `save` removes it.

    The files of an artefact are those that `meta.json` names, or `verified.json` where `meta.json` is damaged.
    """
    path = Path(path)
    try:
        names = {entry.name for entry in path.iterdir()}
    except FileNotFoundError:
        return
    except OSError as problem:
        raise not_writable(path, problem) from None
    own: set[str] = set()
    for name in ("meta.json", checksums.NOTE):
        try:
            record = parse_json((path / name).read_bytes(), name)
            own |= {"meta.json", checksums.NOTE, *record["files"]}
        except (OSError, InputError, KeyError, TypeError) as problem:
            raise_shortage(problem)
            continue
    unfinished_note = f".{checksums.NOTE}."
    if foreign := sorted(name for name in names - own if not name.startswith(unfinished_note)):
        raise InputError(
            f"holds {short(foreign[0])}, which kernelsearch did not write and would remove; name another folder", path=path
        )


def load(
    path: str | Path,
    kind: str,
    version: int,
    *,
    fingerprint: str | None = None,
    mmap: bool = True,
    validate: Validate | None = None,
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Returns the content of `meta.json` and the arrays by name, memory-mapped unless `mmap` is False.

    `path` is the folder of an artefact of this `kind` and format `version`. Small files are hashed; large ones and `validate`
    only where files were changed since they were written or verified. Raises ArtefactError for an artefact that is damaged, of
    another format, or of an index with another `fingerprint`.
    """
    path = Path(path)
    meta = read_meta(path, kind, version, fingerprint=fingerprint)
    recorded: dict[str, str] = meta["checksums"]
    description = checksums.content_checksum(meta)
    unchanged = checksums.is_unchanged(path, meta["files"], recorded, description=description)
    checksums.refuse_changed(path, recorded, advice=f"build the {kind} again", largest=checksums.SMALL if unchanged else None)
    arrays = open_arrays(path, meta, mmap)
    if not unchanged:
        if validate is not None:
            run_validation(path, validate, meta, arrays, kind)
        checksums.note_verified(path, meta["files"], recorded, description=description)
    return meta, arrays


def run_validation(path: Path, validate: Validate, meta: dict[str, Any], arrays: dict[str, NDArray[Any]], kind: str) -> None:
    """Runs `validate` on the content of an artefact, `meta` and `arrays`; raises ArtefactError where it finds something wrong.

    `path` and `kind` name the artefact in the message.
    """
    try:
        validate(meta, arrays)
    except (KeyError, TypeError, ValueError, IndexError) as problem:
        reason = f"no {problem}" if isinstance(problem, KeyError) else str(problem)
        raise ArtefactError(f"damaged ({reason[:200]}); build the {kind} again", path=path) from None


def open_arrays(path: Path, meta: dict[str, Any], mmap: bool) -> dict[str, NDArray[Any]]:
    """Returns the arrays of the artefact `path` by name, memory-mapped with `mmap`, without comparing checksums.

    `meta` is its description. Raises ArtefactError for a file that is no array, and OSError where the system can't open it.
    """
    arrays: dict[str, NDArray[Any]] = {}
    for name in meta["files"]:
        if name.endswith(".npy"):
            try:
                arrays[name[:-4]] = _load_array(path / name, "r" if mmap else None)
            except _UNREADABLE as problem:
                raise ArtefactError(f"damaged ({problem})", path=path / name) from None
            if (dtype := arrays[name[:-4]].dtype).kind not in "biufSU":
                raise ArtefactError(f"damaged (an array of type {dtype}, which no artefact has)", path=path / name)
    return arrays


def _load_array(file: Path, mode: Literal["r"] | None) -> NDArray[Any]:
    """An array of a file, by one thread at a time.

    numpy parses a file's header with `ast`, which in Python 3.11 may fail with SystemError where two threads are in it.
    """
    with _loading:
        array: NDArray[Any] = np.load(file, mmap_mode=mode, allow_pickle=False)
    return array


def read_meta(path: str | Path, kind: str, version: int, *, fingerprint: str | None = None) -> dict[str, Any]:
    """Returns the content of `meta.json`, checked as `load` does, without the arrays. The parameters are those of `load`."""
    path = Path(path)
    try:
        meta: dict[str, Any] = parse_json((path / "meta.json").read_bytes(), "meta.json")
        stored_kind, stored_version, files = meta["kind"], meta["version"], dict(meta["files"])
        if not checksums.is_signed_correctly(meta):
            raise ValueError
        if not all(isinstance(meta.get(name, {}), dict) for name in ("parameters", "extra")):
            raise ValueError
        if set(meta["checksums"]) != set(files):
            raise ValueError
    except FileNotFoundError:
        raise ArtefactError(f"no {kind} here (meta.json is missing)", path=path) from None
    except OSError as problem:
        raise_shortage(problem)
        raise ArtefactError(f"cannot be read ({problem.strerror or problem})", path=path) from None
    except (InputError, ValueError, KeyError, TypeError):
        raise ArtefactError(f"damaged, not a {kind}'s description", path=path / "meta.json") from None
    if stored_kind != kind:
        raise ArtefactError(f"holds a {stored_kind}, a {kind} was expected", path=path)
    if stored_version != version:
        raise ArtefactError(
            f"format {stored_version} of a {kind}, this version reads format {version}; build it again", path=path
        )
    for name, size in files.items():
        if Path(name).name != name:
            raise ArtefactError(f"damaged, {name[:100]!r} is not a file's name", path=path / "meta.json")
        try:
            actual = (path / name).stat().st_size
        except OSError:
            raise ArtefactError(f"missing; build the {kind} again", path=path / name) from None
        if actual != size:
            raise ArtefactError(f"{actual} bytes where {size} were written; build the {kind} again", path=path / name)
    if fingerprint is not None and meta.get("fingerprint") != fingerprint:
        raise ArtefactError(f"this {kind} was made for another index (or the index has changed); build it again", path=path)
    return meta


def write_array(path: Path, array: NDArray[Any]) -> None:
    """Writes `array` to the `.npy` file `path`."""
    with BlockWriter(path, array.dtype, array.shape) as writer:
        writer.write(array)


class BlockWriter:
    """Writes the `.npy` file `path` of known shape and `dtype` in blocks, for arrays larger than memory. A context manager.

    Plain writes instead of a memory map: a full disk raises an OSError that says so, where a memory map would kill the process
    and numpy's own writer would report only how many bytes were written.
    """

    def __init__(self, path: Path, dtype: DTypeLike, shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape = path, np.dtype(dtype), shape
        self._written = 0

    def __enter__(self) -> BlockWriter:
        self._stream = open(self.path, "wb")
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self._stream, header)
        return self

    def write(self, block: NDArray[Any]) -> None:
        """Appends the elements of a block, in C order."""
        self._written += block.size
        self._stream.write(np.ascontiguousarray(block, dtype=self.dtype).data)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._stream.close()
        expected = int(np.prod(self.shape, dtype=np.int64))
        if kind is None and self._written != expected:
            raise ArtefactError(f"{self._written} elements written where {expected} were expected", path=self.path)
