"""Checksums of files, and the note that files have been verified and have not been changed since.

Hashing a large artefact takes longer than opening it. A file is therefore hashed when it is written, and again only where it is
small or where its size, times or inode differ from those that the note `verified.json` records: after a copy, a restore, or
damage. `python -m kernelsearch.check` hashes every file.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from kernelsearch.core.errors import ArtefactError
from kernelsearch.core.replacing import temporary_folder
from kernelsearch.core.streams import raise_shortage

#: The file beside verified files that records their state.
NOTE = "verified.json"
#: Files of at most this many bytes are hashed whenever they are opened, which takes less than a millisecond.
SMALL = 1 << 20
#: The key of a description's own checksum.
KEY = "checksum"
BLOCK = 1 << 20


def file_checksum(path: Path) -> str:
    """Returns the checksum of the file `path` (XXH3, 128 bits, in hexadecimal)."""
    import xxhash  # imported here, as others are: `--help` doesn't need it

    digest = xxhash.xxh3_128()
    with open(path, "rb", buffering=0) as stream:
        while block := stream.read(BLOCK):
            digest.update(block)
    return digest.hexdigest()


def signed(description: Mapping[str, Any]) -> dict[str, Any]:
    """Returns `description`, a JSON object, with a checksum of its content under KEY."""
    return {**description, KEY: content_checksum(description)}


def is_signed_correctly(description: Mapping[str, Any]) -> bool:
    """Returns whether `description` is as `signed` made it."""
    content = {key: value for key, value in description.items() if key != KEY}
    return bool(description.get(KEY) == content_checksum(content))


def content_checksum(content: Mapping[str, Any]) -> str:
    """Returns the checksum of `content`, a JSON object, which doesn't depend on the order of its keys."""
    import xxhash

    text = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return str(xxhash.xxh3_128(text.encode("utf-8", errors="surrogatepass")).hexdigest())


def is_unchanged(
    folder: Path, names: Iterable[str], checksums: Mapping[str, str], *, description: str = "", into: Path | None = None
) -> bool:
    """Returns whether the files `names` of a folder were verified with these checksums, or written, and not changed since.

    `description` is the checksum of the description with which they were verified; `into` is the folder of the note, if it is
    another one.
    """
    recorded, written = _read_note(into or folder)
    state = _state(folder, names, checksums)
    # A file that was changed in the same tick of the clock as the note was written could have the recorded times.
    return recorded == _note(description, state) and all(changed < written for _, _, _, changed, _ in state.values())


def note_verified(
    folder: Path, names: Iterable[str], checksums: Mapping[str, str], *, description: str = "", into: Path | None = None
) -> None:
    """Records that the files `names` of a folder have been verified with these `checksums` and `description`, or just written.

    Where the folder can't be written, there is no note, and files are verified again whenever they are opened. `into` is the
    folder of the note, if it is another one.
    """
    place = (into or folder) / NOTE
    text = json.dumps(_note(description, _state(folder, names, checksums))) + "\n"
    with suppress(OSError), temporary_folder(place) as folder_of_note:
        (folder_of_note / NOTE).write_text(text, encoding="utf-8")
        os.replace(folder_of_note / NOTE, place)


def refuse_changed(folder: Path, checksums: Mapping[str, str], *, advice: str, largest: int | None = None) -> None:
    """Raises ArtefactError for the first file of `folder` whose checksum differs; the message ends with `advice`.

    `checksums` are by name of the file. `largest` leaves out files of more bytes.
    """
    for name, checksum in checksums.items():
        file = folder / name
        try:
            if largest is not None and file.stat().st_size > largest:
                continue
            actual = file_checksum(file)
        except OSError as problem:
            raise_shortage(problem)
            raise ArtefactError(f"cannot be read ({problem.strerror or problem})", path=file) from None
        if actual != checksum:
            raise ArtefactError(f"damaged (its checksum is not the one that was written); {advice}", path=file)


def _note(description: str, state: dict[str, Any]) -> dict[str, Any]:
    """What a note holds. The description decides how files are understood: one that was changed makes the note void."""
    return {"description": description, "files": state}


def _state(folder: Path, names: Iterable[str], checksums: Mapping[str, str]) -> dict[str, Any]:
    """Each file's checksum, size, times in nanoseconds and inode."""
    state: dict[str, Any] = {}
    for name in names:
        try:
            file = (folder / name).stat()
        except OSError:
            continue  # reported by whoever opens it
        state[name] = [checksums.get(name, ""), file.st_size, file.st_mtime_ns, file.st_ctime_ns, file.st_ino]
    return state


def _read_note(folder: Path) -> tuple[Any, int]:
    """The recorded state, None where there is none, and when it was written, in nanoseconds."""
    place = folder / NOTE
    try:
        return json.loads(place.read_text(encoding="utf-8")), place.stat().st_mtime_ns
    except (OSError, ValueError, RecursionError):
        return None, 0  # no note, or a damaged one: the files are verified
