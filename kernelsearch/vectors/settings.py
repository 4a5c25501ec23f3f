"""Options of vectors in search: the name of the vectors to use, and the source of query vectors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kernelsearch.core.options import Settings, option

#: What names of vectors look like.
NAME = r"[A-Za-z0-9_][A-Za-z0-9_-]*"


@dataclass(frozen=True, kw_only=True)
class VectorSettings(Settings):
    """The vectors of an index that are used if a method names none, and the source of query vectors."""

    owner: ClassVar[str] = "vectors"

    name: str | None = option(
        None,
        "name of the vectors that methods use by default; default: the one that --vectors.queries NAME=FILE names, or the only "
        "ones of the index",
    )
    queries: str | tuple[str, ...] | None = option(
        None,
        "file of query vectors with topic ids (.npz, JSONL, Parquet, FAISS folder), or NAME=FILE for the vectors NAME; may be "
        "repeated",
        repeat=True,
        names="file",
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

    @property
    def default_name(self) -> str | None:
        """The name of the vectors that methods use where they name none: `name`, or the only one that `queries` names."""
        if self.name is not None:
            return self.name
        names = {name for name, _ in self._files()}
        return names.pop() if len(names) == 1 else None

    def queries_of(self, name: str) -> str | None:
        """The file of query vectors for the vectors of that name; None where no file is given."""
        files = dict(self._files())
        return files.get(name, files.get(None))

    def _files(self) -> list[tuple[str | None, str]]:
        """(name of vectors, file) of each of `queries`; None for a file without a name."""
        return [_split(text) for text in ((self.queries,) if isinstance(self.queries, str) else self.queries or ())]


def _split(text: str) -> tuple[str | None, str]:
    """NAME=FILE or FILE as (name or None, file); in a path "=" may follow a character that no name has, as in a/b=1/FILE."""
    name, equals, file = text.partition("=")
    return (name, file) if equals and re.fullmatch(NAME, name) else (None, text)


def _absolute(text: str) -> str:
    """FILE or NAME=FILE with an absolute path."""
    name, file = _split(text)
    return f"{name}={Path(file).absolute()}" if name else str(Path(file).absolute())
