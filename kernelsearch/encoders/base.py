"""What an encoder is, and how one is opened by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError, quote
from kernelsearch.core.rows import MAX_DIMS


class Encoder(ABC):
    """Makes vectors of texts. `source` is the name by which `open_encoder` opens it again."""

    source: str
    #: Texts that are encoded together.
    batch: int = 32

    def declaration(self) -> dict[str, Any]:
        """What vectors of this encoder depend on, as plain data: here the library and the model's name.

        Encoders with the same declaration give the same vectors.
        """
        library, _, model = self.source.partition(":")
        return {"source": self.source, "library": library, "model": model}

    @abstractmethod
    def encode(self, texts: Sequence[str], *, queries: bool) -> NDArray[np.float32]:
        """Vectors of a batch of texts, shape (texts, dims), as queries or as documents; unchecked."""

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of documents, shape (texts, dims)."""
        return self._sorted(texts, queries=False)

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries, shape (texts, dims)."""
        return self._sorted(texts, queries=True)

    def _refuse_unfit(self, vectors: NDArray[np.float32], texts: Sequence[str], dims: int | None = None) -> None:
        """Raises InputError unless `vectors` has a row per text of `dims` finite values (None: 1 to MAX_DIMS)."""
        if vectors.ndim != 2 or len(vectors) != len(texts) or (dims is not None and vectors.shape[1] != dims):
            raise InputError(
                f"encoder {self.source}: made an array of shape {vectors.shape} of {len(texts)} texts; "
                f"({len(texts)}, {dims or 'dimensions'}) was expected"
            )
        if not 1 <= vectors.shape[1] <= MAX_DIMS:
            raise InputError(
                f"encoder {self.source}: made vectors of {vectors.shape[1]} dimensions; between 1 and {MAX_DIMS} were expected"
            )
        bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
        if len(bad):
            raise InputError(
                f"encoder {self.source}: made a value that is not a finite number of the text {quote(texts[int(bad[0])])}"
            )

    def _sorted(self, texts: Sequence[str], *, queries: bool) -> NDArray[np.float32]:
        """Batches of texts of similar length: a batch costs as much as its longest text."""
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        out: NDArray[np.float32] | None = None
        for start in range(0, len(order), self.batch):
            places = order[start : start + self.batch]
            batch = [texts[place] for place in places]
            vectors = np.asarray(self.encode(batch, queries=queries), dtype=np.float32)
            self._refuse_unfit(vectors, batch, None if out is None else out.shape[1])
            if out is None:
                out = np.empty((len(texts), vectors.shape[1]), dtype=np.float32)
            out[places] = vectors
        return np.empty((0, 0), dtype=np.float32) if out is None else out


def open_encoder(source: str) -> Encoder:
    """The encoder `source`: a folder with an ONNX model and its tokenizer, `sentence-transformers:NAME` or `pyserini:NAME`.

    Raises OptionError for an empty name.
    """
    kind, colon, name = source.partition(":")
    if colon and kind == "sentence-transformers":
        from kernelsearch.encoders.installed import SentenceTransformersEncoder

        return SentenceTransformersEncoder(name)
    if colon and kind == "pyserini":
        from kernelsearch.encoders.installed import PyseriniEncoder

        return PyseriniEncoder(name)
    if not source:
        raise OptionError(
            "no name; a folder with an ONNX model, sentence-transformers:NAME or pyserini:NAME", option=Flag("encoder")
        )
    from kernelsearch.encoders.onnx import OnnxEncoder

    return OnnxEncoder(source)
