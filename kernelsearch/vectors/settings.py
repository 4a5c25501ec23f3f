"""Options of vectors in search: the name of the vectors to use, and the source of query vectors."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class VectorSettings(Settings):
    """The vectors of an index that are used if a method names none, and the source of query vectors."""

    owner: ClassVar[str] = "vectors"

    name: str | None = option(None, "name of the vectors that methods use by default; default: the only ones of the index")
    queries: str | tuple[str, ...] | None = option(
        None,
        "file of query vectors with topic ids (.npz, JSONL, Parquet, FAISS folder), or NAME=FILE for the vectors NAME; may be "
        "repeated",
        repeat=True,
    )
    encoder: str | None = option(
        None, "encoder of queries: a folder with an ONNX model, sentence-transformers:NAME or pyserini:NAME; "
        "default: the encoder of the document vectors",
    )  # fmt: skip

    def absolute(self) -> VectorSettings:
        """The same settings with absolute paths, for a process that runs in another folder."""
        queries, encoder = self.queries, self.encoder
        if isinstance(queries, str):
            queries = _absolute(queries)
        elif queries is not None:
            queries = tuple(map(_absolute, queries))
        if encoder is not None and Path(encoder).is_dir():
            encoder = str(Path(encoder).absolute())
        return VectorSettings(name=self.name, queries=queries, encoder=encoder)

    def queries_of(self, name: str) -> str | None:
        """The file of query vectors for the vectors of that name; None where no file is given."""
        files = (self.queries,) if isinstance(self.queries, str) else self.queries or ()
        general = None
        for text in files:
            prefix, equals, file = text.partition("=")
            if equals and prefix == name:
                return file
            if not equals:
                general = text
        return general


def _absolute(text: str) -> str:
    """FILE or NAME=FILE with an absolute path."""
    name, equals, file = text.rpartition("=")
    return f"{name}{equals}{Path(file).absolute()}"
