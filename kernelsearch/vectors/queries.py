"""Vectors of queries: from a file by topic id, or from the encoder that made the documents' vectors."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import ArtefactError, Flag, InputError, OptionError
from kernelsearch.core.rows import unit_rows
from kernelsearch.core.types import Query
from kernelsearch.encoders import Encoder, open_encoder
from kernelsearch.vectors.readers import open_vectors
from kernelsearch.vectors.store import DocumentVectors

#: Query vectors of the encoder that are kept, least recently used first to go.
CACHED = 10_000


class QueryVectors:
    """Finds the vector of a query: in `file` by its topic id or its text, otherwise by encoding its text.

    Texts in `file` match whatever their case and blanks. `documents` are the vectors that it must fit, `encoder` names an
    encoder other than theirs. Safe to use from several threads.
    """

    def __init__(self, documents: DocumentVectors, *, file: str | None = None, encoder: str | None = None) -> None:
        self._documents, self._file, self._override = documents, file, encoder
        self._source = encoder or (documents.encoder or {}).get("source")
        self._declared = documents.encoder
        self._stored = _read(file, documents) if file is not None else {}
        self._folded = {_fold(key): vector for key, vector in self._stored.items()}
        self._encoder: Encoder | None = None
        self._cache: OrderedDict[str, NDArray[np.float32]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        """Another process reads the file, or opens the encoder, itself."""
        return _reopen, (self._documents, self._file, self._override)

    def require(self) -> None:
        """Raises OptionError, with the options that help, where no query can have a vector: no file and no encoder is known."""
        if self._file is None and self._source is None:
            raise OptionError(
                f"vectors {self._documents.name!r}: where do the queries' vectors come from? ",
                Flag("queries", "vectors"),
                " FILE gives them by topic id, ",
                Flag("encoder", "vectors"),
                " FOLDER encodes them (kernelsearch.serve: ",
                Flag("query-vectors"),
                ' FILE; in Python: vectors={"queries": FILE} where the index is opened)',
            )

    def stamp(self) -> str:
        """What the vectors of queries depend on, as text: the file with its size and time, and the encoder."""
        parts = [self._documents.name, self._source or ""]
        if self._file is not None:
            state = Path(self._file).stat()
            parts += [str(Path(self._file).absolute()), str(state.st_size), str(state.st_mtime_ns)]
        return " ".join(parts)

    def find(self, queries: Sequence[Query]) -> list[NDArray[np.float32] | None]:
        """The vector of each of `queries`, shape (dims,); None for a query that the file lacks where there is no encoder.

        Raises OptionError where there is neither, InputError or ArtefactError for an encoder that doesn't fit the documents'
        vectors.
        """
        self.require()
        known = [self._known(query) for query in queries]
        missing = list(dict.fromkeys(query.text for query, vector in zip(queries, known, strict=True) if vector is None))
        if not missing or self._source is None:
            return known
        with self._lock:
            vectors = dict(zip(missing, self._encode(missing), strict=True))
            self._cache.update(vectors)
            while len(self._cache) > CACHED:
                self._cache.popitem(last=False)
        return [vectors[query.text] if vector is None else vector for query, vector in zip(queries, known, strict=True)]

    def texts(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """As `find`, for queries of which only the `texts` are known."""
        return self.find([Query(text) for text in texts])

    def _known(self, query: Query) -> NDArray[np.float32] | None:
        for key in (query.qid, query.text):
            if key and (vector := self._stored.get(key)) is not None:
                return vector
        if (vector := self._folded.get(_fold(query.text))) is not None:
            return vector
        with self._lock:
            if query.text in self._cache:
                self._cache.move_to_end(query.text)
            return self._cache.get(query.text)

    def _encode(self, texts: list[str]) -> NDArray[np.float32]:
        if self._encoder is None:
            self._encoder = self._open()
        vectors = self._encoder.queries(texts)
        if vectors.shape[1] != self._documents.dims:
            raise InputError(
                f"makes vectors of {vectors.shape[1]} dimensions, those of {self._documents.name!r} have "
                f"{self._documents.dims}",
                option=Flag("encoder", "vectors"),
                path=self._encoder.source,
            )
        return unit_rows(vectors) if self._documents.normalised else vectors

    def _open(self) -> Encoder:
        """The encoder, if it is the one that made the documents' vectors (another folder may hold it)."""
        assert self._source is not None
        encoder = open_encoder(self._source)
        if self._declared is not None:
            now = encoder.declaration()
            changed = [key for key in {**self._declared, **now} if key != "source" and self._declared.get(key) != now.get(key)]
            if changed:
                raise ArtefactError(
                    f"not the encoder that made the vectors {self._documents.name!r} (its {changed[0]} differs)",
                    option=Flag("encoder", "vectors"),
                    path=self._source,
                )
        return encoder


def _fold(text: str) -> str:
    """A query's text as click logs keep it, case folded with single blanks: a file may have it as it was typed."""
    return " ".join(text.casefold().split())


def _reopen(documents: DocumentVectors, file: str | None, encoder: str | None) -> QueryVectors:
    return QueryVectors(documents, file=file, encoder=encoder)


def _read(file: str, documents: DocumentVectors) -> Mapping[str, NDArray[np.float32]]:
    """{topic id: vector} of a file."""
    stored: dict[str, NDArray[np.float32]] = {}
    try:
        for block in open_vectors(file).blocks(dims=documents.dims):
            vectors = unit_rows(block.vectors) if documents.normalised else block.vectors
            stored.update(zip(block.ids, vectors, strict=True))
    except InputError as problem:
        raise InputError(problem, option=Flag("queries", "vectors")) from None
    return stored
