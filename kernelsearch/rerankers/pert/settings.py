"""Options of `pert`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class PerturbationSettings(Settings):
    """Options of `pert`."""

    owner: ClassVar[str] = "pert"

    alpha: float = option(0.5, "weight of the expansion against the query; 0 gives the first stage's list", low=0, high=1)
    docs: int = option(10, "number of feedback documents", low=1, request_high=100)
    terms: int = option(20, "largest number of terms to add", low=1, request_high=100)
    max_df: float = option(0.1, "largest share of the documents that an added term may occur in", low=0, high=1)
    kappa: float = option(0.01, "weight of the risk in the program", low=0, high=1e6)
    hits: int | None = option(
        None, "number of documents to retrieve per query in the second search; default: as in the first stage", low=1
    )
