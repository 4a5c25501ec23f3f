"""Documents' texts to stored vectors, in parts that survive an interruption."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.errors import InputError
from kernelsearch.core.files import write_file
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.reading import parse_json
from kernelsearch.encoders import Encoder
from kernelsearch.forward import ForwardIndex
from kernelsearch.vectors.store import Stored, VectorWriter, finish, save_vectors

#: Documents of a part: what an interruption loses at most.
PART = 1024
STATE = "state.json"

#: The texts of rows; None where a document has no stored text.
Texts = Callable[[Sequence[int]], Sequence[str | None]]


def encode_documents(
    folder: Path,
    forward: ForwardIndex,
    texts: Texts,
    encoder: Encoder,
    *,
    field: str = "contents",
    dtype: str = "float16",
    normalise: bool = False,
    max_tokens: int | None = None,
    neighbours: str = "auto",
    limit: MemoryLimit | None = None,
    progress: Progress = silent,
    part: int = PART,
) -> Stored:
    """Encodes all live documents and stores their vectors as the artefact `folder`.

    What is done is kept in a folder beside it; the same call after an interruption goes on from there. Documents whose text is
    empty get no vector.

    Args:
        folder: where the artefact is stored; see `store.place`.
        forward: the forward index whose rows the vectors follow.
        texts: gives the texts of rows of the index.
        field: the stored field that they come from, for messages and for telling one piece of work from another.
        dtype, normalise, neighbours, limit: as in `store.import_vectors`.
        max_tokens: tokens of a document that the encoder reads at most, where its declaration doesn't say so.
        progress: gets the progress, in documents.
        part: documents that are encoded between two states on disk.

    Raises:
        InputError: no document has a text, or the encoder gives a value that is not finite.
    """
    work = folder.parent / f".{folder.name}.encoding"
    declaration = encoder.declaration()
    wanted = {
        "declaration": declaration,
        "fingerprint": forward.fingerprint,
        "field": field,
        "dtype": dtype,
        "normalise": normalise,
    }
    live = forward.live_docs
    state = _resume(work, wanted)
    present = np.zeros(len(forward), dtype=bool)
    writer: VectorWriter | None = None
    if state is not None:
        present = np.load(work / "encoded.npy")
        height, width = state["shape"]
        writer = VectorWriter(work / "matrix.npy", height, width, dtype, normalise, encoder.source, new=False)
    done = state["done"] if state is not None else 0
    with progress("encoding", total=len(live), unit="doc") as bar:
        bar.update(done)
        for start in range(done, len(live), part):
            rows = live[start : start + part]
            stored = zip(rows.tolist(), texts(rows.tolist()), strict=True)
            nonempty = [(row, text) for row, text in stored if text and text.strip()]
            if nonempty:
                vectors = encoder.documents([text for _, text in nonempty])
                numbers = np.array([row for row, _ in nonempty], dtype=np.int64)
                bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
                if len(bad):
                    name = forward.docids[int(numbers[bad[0]])]
                    raise InputError(f"--encoder: {encoder.source}: document {name!r} gives a value that is not finite")
                if writer is None:
                    work.mkdir(parents=True, exist_ok=True)
                    file, width = work / "matrix.npy", vectors.shape[1]
                    writer = VectorWriter(file, len(forward), width, dtype, normalise, encoder.source)
                writer.put(numbers, vectors, forward.docids.take(numbers))
                present[numbers] = True
            if writer is not None:
                writer.close()
                _write_state(work, {**wanted, "done": start + len(rows), "shape": list(writer.matrix.shape)}, present)
            bar.update(len(rows))
    if writer is None:
        raise InputError(f"--field: no document has a text stored as {field!r}; index with the text, or import vectors")
    dims = writer.matrix.shape[1]

    def fill(partial: Path) -> None:
        # A second name for the same file: what was encoded is not lost if anything fails from here on.
        os.link(work / "matrix.npy", partial / "matrix.npy")
        finish(partial, present, neighbours, limit)

    save_vectors(folder, forward, fill, dtype=dtype, normalise=normalise, encoder=declaration, max_tokens=max_tokens)
    shutil.rmtree(work, ignore_errors=True)
    return Stored(int(present.sum()), dims, int((forward.live & ~present).sum()))


def _resume(work: Path, wanted: dict[str, Any]) -> dict[str, Any] | None:
    """The state of an interrupted encoding of the same work; None, and a clean start, for anything else."""
    try:
        state: dict[str, Any] = parse_json((work / STATE).read_bytes(), str(work / STATE))
        same = all(state[key] == value for key, value in wanted.items()) and (work / "matrix.npy").is_file()
    except (OSError, InputError, ValueError, KeyError, TypeError):
        same = False
    if same:
        return state
    shutil.rmtree(work, ignore_errors=True)
    return None


def _write_state(work: Path, state: dict[str, Any], present: np.ndarray) -> None:
    """The state on disk: it appears after what it tells of."""
    with open(work / "encoded.npy.partial", "wb") as stream:
        np.save(stream, present)
    os.replace(work / "encoded.npy.partial", work / "encoded.npy")
    with write_file(work / STATE) as text:
        text.write(json.dumps(state) + "\n")
