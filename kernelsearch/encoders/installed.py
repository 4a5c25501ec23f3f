"""Encoders of other libraries, for those who have them installed: sentence-transformers and Pyserini. Both bring torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, InputError, OptionError
from kernelsearch.encoders.base import Encoder


class SentenceTransformersEncoder(Encoder):
    """A model of sentence-transformers, by the name or folder that it has there; the model itself says how it pools."""

    def __init__(self, name: str) -> None:
        self.source = f"sentence-transformers:{name}"
        library = _imported("sentence_transformers", self.source)
        try:
            self._model = library.SentenceTransformer(name, device="cpu")
        except (OSError, ValueError) as problem:
            raise InputError(f"can't be opened ({_line(problem)})", option=Flag("encoder"), path=self.source) from None

    def encode(self, texts: Sequence[str], *, queries: bool) -> NDArray[np.float32]:
        # Models that know prompts for queries and documents have methods for each; older versions have one for both.
        name = "encode_query" if queries else "encode_document"
        encode = getattr(self._model, name, self._model.encode)
        return np.asarray(encode(list(texts), batch_size=self.batch, show_progress_bar=False), dtype=np.float32)


class PyseriniEncoder(Encoder):
    """Pyserini's encoder pair for a model, chosen and set up by the model's name as `pyserini.search.faiss` does it."""

    def __init__(self, name: str) -> None:
        self.source = f"pyserini:{name}"
        library = _imported("pyserini.encode", self.source)
        options: dict[str, Any] = {"device": "cpu"}
        if "sentence" in name.lower():
            options |= {"pooling": "mean", "l2_norm": True}
        elif "contriever" in name.lower():
            options |= {"pooling": "mean", "l2_norm": False}
        try:
            self._documents = _match(library.document_encoder_class_map, name)(name, **options)
            self._queries = _match(library.query_encoder_class_map, name)(name, **options)
        except (OSError, ValueError, TypeError) as problem:
            raise InputError(f"can't be opened ({_line(problem)})", option=Flag("encoder"), path=self.source) from None

    def encode(self, texts: Sequence[str], *, queries: bool) -> NDArray[np.float32]:
        if queries:
            return np.stack([np.asarray(self._queries.encode(text), dtype=np.float32).ravel() for text in texts])
        return np.asarray(self._documents.encode(list(texts)), dtype=np.float32)


def _match(classes: Mapping[str, Any], name: str) -> Any:
    """The class whose keyword is in the model's name."""
    return next((made for keyword, made in classes.items() if keyword in name.lower() and made), classes["auto"])


def _imported(module: str, source: str) -> Any:
    try:
        return import_module(module)
    except ImportError as problem:
        missing = problem.name or module
        raise OptionError(
            f"needs {module.partition('.')[0]}, and {missing} is not installed", option=Flag("encoder"), path=source
        ) from None


def _line(problem: Exception) -> str:
    return " ".join(str(problem).split())[:160]
