"""Fitted state on disk: a folder of `.npy` files, memory-mapped on load, and a `meta.json` that says what they are.

No pickle: a model file from a stranger must not run code. The sizes of all files stand in `meta.json`, so that a copy
that was cut short is noticed at once instead of giving wrong scores.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.errors import ArtefactError
from kernelsearch.core.files import write_folder


def save(
    path: str | Path,
    kind: str,
    version: int,
    *,
    arrays: Mapping[str, np.ndarray] | None = None,
    parameters: Mapping[str, Any] | None = None,
    fingerprint: str = "",
    extra: Mapping[str, Any] | None = None,
    fill: Callable[[Path], None] | None = None,
) -> None:
    """Writes an artefact atomically, replacing an older one.

    `arrays` become `NAME.npy`; `fill` may write further files into the folder itself (large arrays block by block, a FAISS
    index). `fingerprint` is that of the index the artefact belongs to.
    """
    with write_folder(path, replace=True) as folder:
        for name, array in (arrays or {}).items():
            write_array(folder / f"{name}.npy", array)
        if fill is not None:
            fill(folder)
        meta = {
            "kind": kind,
            "version": version,
            "fingerprint": fingerprint,
            "parameters": dict(parameters or {}),
            "extra": dict(extra or {}),
            "files": {file.name: file.stat().st_size for file in sorted(folder.iterdir())},
        }
        (folder / "meta.json").write_text(json.dumps(meta, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def load(
    path: str | Path, kind: str, version: int, *, fingerprint: str | None = None, mmap: bool = True
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Reads an artefact: its meta record and its arrays (memory-mapped). Refuses what is damaged or of another index."""
    path = Path(path)
    meta = read_meta(path, kind, version, fingerprint=fingerprint)
    arrays: dict[str, np.ndarray] = {}
    for name in meta["files"]:
        if name.endswith(".npy"):
            try:
                arrays[name[:-4]] = np.load(path / name, mmap_mode="r" if mmap else None, allow_pickle=False)
            except (ValueError, OSError):
                # numpy can't map an array of no elements; reading it is free.
                try:
                    arrays[name[:-4]] = np.load(path / name, allow_pickle=False)
                except (ValueError, OSError) as problem:
                    raise ArtefactError(f"{path / name}: damaged ({problem})") from None
    return meta, arrays


def read_meta(path: str | Path, kind: str, version: int, *, fingerprint: str | None = None) -> dict[str, Any]:
    """Reads and checks `meta.json` alone, without touching the arrays."""
    path = Path(path)
    try:
        meta = json.loads((path / "meta.json").read_text(encoding="utf-8"))
        found_kind, found_version, files = meta["kind"], meta["version"], meta["files"]
    except FileNotFoundError:
        raise ArtefactError(f"{path}: no {kind} here (meta.json is missing)") from None
    except OSError as problem:
        raise ArtefactError(f"{path}: cannot be read ({problem.strerror or problem})") from None
    except (ValueError, KeyError, TypeError):
        raise ArtefactError(f"{path / 'meta.json'}: damaged, not a {kind}'s description") from None
    if found_kind != kind:
        raise ArtefactError(f"{path}: holds a {found_kind}, a {kind} was expected")
    if found_version != version:
        raise ArtefactError(f"{path}: format {found_version} of a {kind}, this version reads format {version}; build it again")
    for name, size in files.items():
        try:
            found = (path / name).stat().st_size
        except OSError:
            raise ArtefactError(f"{path / name}: missing; build the {kind} again") from None
        if found != size:
            raise ArtefactError(f"{path / name}: {found} bytes where {size} were written; build the {kind} again")
    if fingerprint is not None and meta.get("fingerprint") != fingerprint:
        raise ArtefactError(f"{path}: this {kind} was made for another index (or the index has changed); build it again")
    return meta


def write_array(path: Path, array: np.ndarray) -> None:
    """Writes a `.npy` file."""
    with BlockWriter(path, array.dtype, array.shape) as writer:
        writer.write(array)


class BlockWriter:
    """Writes a `.npy` file of known shape block by block, for arrays larger than memory.

    Plain writes instead of a memory map: a disk that fills raises an error that says so, where a map would kill the process
    and numpy's own writer would speak of bytes requested and written.
    """

    def __init__(self, path: Path, dtype: Any, shape: tuple[int, ...]) -> None:
        self.path, self.dtype, self.shape = path, np.dtype(dtype), shape
        self._written = 0

    def __enter__(self) -> BlockWriter:
        self._stream = open(self.path, "wb")
        header = {"descr": self.dtype.str, "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(self._stream, header)
        return self

    def write(self, block: np.ndarray) -> None:
        self._written += block.size
        self._stream.write(np.ascontiguousarray(block, dtype=self.dtype).data)

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._stream.close()
        announced = int(np.prod(self.shape, dtype=np.int64))
        if kind is None and self._written != announced:
            raise ArtefactError(f"{self.path}: {self._written} elements written where {announced} were announced")
