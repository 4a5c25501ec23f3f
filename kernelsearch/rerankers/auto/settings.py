"""Options of `auto`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.rerankers.fusion.settings import DepthSettings


@dataclass(frozen=True, kw_only=True)
class AutoSettings(DepthSettings):
    """Options of `auto`."""

    owner: ClassVar[str] = "auto"
