"""Options of `auto`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import option
from kernelsearch.rerankers.fusion.settings import DepthSettings


@dataclass(frozen=True, kw_only=True)
class AutoSettings(DepthSettings):
    """Options of `auto`."""

    owner: ClassVar[str] = "auto"

    depth: int = option(500, "number of candidates per source that are fused", low=1)

    vectors: str | None = option(
        None,
        "name of the vectors to use in addition to words; default: --vectors.name, or the only ones of the index if queries "
        "have vectors too; none: words alone",
        names="vectors",
        requests=("none",),
    )
