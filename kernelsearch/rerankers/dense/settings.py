"""Options of `dense`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class DenseSettings(Settings):
    """Options of `dense` in search."""

    owner: ClassVar[str] = "dense"

    vectors: str | None = option(
        None, "name of the vectors; default: --vectors.name, or the only ones of the index", names="vectors"
    )
    retrieve: int = option(0, "number of documents with the largest inner products (FAISS) to add to the candidates", low=0)
