"""Options of `klsa-paper`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import option
from kernelsearch.rerankers.klsa.settings import KernelLSASettings


@dataclass(frozen=True, kw_only=True)
class KernelLSAPaperSettings(KernelLSASettings):
    """Options of `klsa-paper` in search; the basis is that of `klsa`."""

    owner: ClassVar[str] = "klsa-paper"

    z: int = option(1, "number of first documents whose scores are propagated in the latent space", low=1)
    lambda_: float = option(0.9, "weight of the latent score; 0 gives the order of k_q", low=0, high=1)
    retrieve: int = option(0, "number of nearest documents in the latent space to add to the candidates per query", low=0)
    scores: str = option(
        "first", "query scores k_q to smooth: the first stage's, or those of the fitted kernel", choices=("first", "kernel")
    )
    cosine: bool = option(
        False,
        "divide latent scores by the length of the document's latent vector, as in LSI with the cosine; use it with "
        "--klsa-paper.lambda 1, because these scores are not on the scale of k_q",
    )
