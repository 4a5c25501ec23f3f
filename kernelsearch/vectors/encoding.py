"""Documents' texts to stored vectors, in parts that survive an interruption."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError
from kernelsearch.core.files import write_file
from kernelsearch.core.memory_limit import MemoryLimit
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.reading import parse_json
from kernelsearch.core.streams import raise_shortage
from kernelsearch.encoders import Encoder
from kernelsearch.forward import ForwardIndex
from kernelsearch.vectors.store import Stored, VectorWriter, finish, save_vectors

#: Documents of a part: what an interruption loses at most.
PART = 1024
#: Files of an encoding that is not finished: its state, and which rows have a vector.
STATE, ENCODED = "state.json", "encoded.npy"

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

    Parameters
    ----------
    folder : where the artefact is stored; see `store.place`
    forward : the forward index whose rows the vectors follow
    texts : gives the texts of rows of the index
    field : the stored field that they come from, for messages; work on another field is not continued
    dtype, normalise, neighbours, limit : as in `store.import_vectors`
    max_tokens : tokens of a document that the encoder reads at most, where its declaration doesn't say so
    progress : gets the progress, in documents
    part : documents that are encoded between two states on disk

    Raises InputError where no document has a text, or the encoder gives a value that is not finite.
    """
    declaration = encoder.declaration()
    wanted = {
        "declaration": declaration,
        "fingerprint": forward.fingerprint,
        "field": field,
        "dtype": dtype,
        "normalise": normalise,
    }
    work = _Work(folder.parent / f".{folder.name}.encoding", forward, wanted, encoder.source)
    live = forward.live_docs
    with progress("encoding", total=len(live), unit="doc") as bar:
        bar.update(work.done)
        for start in range(work.done, len(live), part):
            rows = live[start : start + part].tolist()
            stored = zip(rows, texts(rows), strict=True)
            nonempty = [(row, text) for row, text in stored if text and text.strip()]
            if nonempty:
                work.put([row for row, _ in nonempty], encoder.documents([text for _, text in nonempty]))
            work.save(start + len(rows))
            bar.update(len(rows))
    if work.writer is None:
        raise InputError(
            f"no document has a text stored as {field!r}; index with the text, or import vectors", option=Flag("field")
        )
    present, dims = work.present, work.writer.matrix.shape[1]

    def fill(partial: Path) -> None:
        # A second name for the same file: what was encoded is not lost if anything fails from here on.
        os.link(work.matrix, partial / "matrix.npy")
        finish(partial, present, neighbours, limit)

    save_vectors(folder, forward, fill, dtype=dtype, normalise=normalise, encoder=declaration, max_tokens=max_tokens)
    shutil.rmtree(work.path, ignore_errors=True)
    return Stored(int(present.sum()), dims, int((forward.live & ~present).sum()))


class _Work:
    """What is encoded so far, in a folder that an interrupted encoding leaves behind and the next one goes on from.

    Made from the folder `path`, the forward index, what the work must have in common (`wanted`, with the `dtype` of the vectors
    and whether to `normalise` them), and the encoder's name in messages, `source`.

    Attributes: `done`, how many live documents were encoded; `present` (rows,), which rows have a vector; `matrix`, the file of
    the vectors; `writer`, which writes it, None before the first vector.
    """

    def __init__(self, path: Path, forward: ForwardIndex, wanted: dict[str, Any], source: str) -> None:
        self.path, self.matrix = path, path / "matrix.npy"
        self.done, self.present = 0, np.zeros(len(forward), dtype=bool)
        self.writer: VectorWriter | None = None
        self._forward, self._wanted, self._source = forward, wanted, source
        if not self._resume():
            shutil.rmtree(path, ignore_errors=True)

    def _resume(self) -> bool:
        """Goes on with an interrupted encoding of the same work; False where there is none, or its files are damaged."""
        try:
            state: dict[str, Any] = parse_json((self.path / STATE).read_bytes(), str(self.path / STATE))
            present = np.load(self.path / ENCODED)
            writer = self._open(*state["shape"], new=False)
            if any(state[key] != value for key, value in self._wanted.items()):
                return False
            if present.shape != self.present.shape or list(writer.matrix.shape) != state["shape"]:
                return False
            self.done, self.present, self.writer = int(state["done"]), present, writer
        except (OSError, InputError, ValueError, KeyError, TypeError, EOFError) as problem:
            raise_shortage(problem)
            return False
        return True

    def _open(self, rows: int, dims: int, *, new: bool) -> VectorWriter:
        dtype, normalise = self._wanted["dtype"], self._wanted["normalise"]
        return VectorWriter(self.matrix, rows, dims, dtype, normalise, self._source, new=new)

    def put(self, rows: list[int], vectors: NDArray[np.float32]) -> None:
        """Stores the `vectors` (rows, dims) of `rows`."""
        if self.writer is None:
            self.path.mkdir(parents=True, exist_ok=True)
            self.writer = self._open(len(self._forward), vectors.shape[1], new=True)
        self.writer.put(np.array(rows, dtype=np.int64), vectors, self._forward.docids.take(rows))
        self.present[rows] = True

    def save(self, done: int) -> None:
        """Writes to disk that `done` documents were encoded; the state is written after the files that it describes."""
        self.done = done
        if self.writer is None:
            return
        self.writer.close()
        with open(self.path / f"{ENCODED}.partial", "wb") as stream:
            np.save(stream, self.present)
        os.replace(self.path / f"{ENCODED}.partial", self.path / ENCODED)
        with write_file(self.path / STATE) as text:
            text.write(json.dumps({**self._wanted, "done": done, "shape": list(self.writer.matrix.shape)}) + "\n")
