"""Options of `klsa`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from kernelsearch.core.options import Settings, option


@dataclass(frozen=True, kw_only=True)
class KernelLSASettings(Settings):
    """Options of `klsa` in search."""

    owner: ClassVar[str] = "klsa"

    z: int | None = option(
        None,
        "number of first documents whose scores are propagated in the latent space, as in the paper; auto: the first 20, "
        "weighted by their scores relative to the first one's",
        low=1,
    )
    lambda_: float | None = option(
        None, "weight of the latent score; 0 gives the first stage's order; auto: .5, or .9 if z is given", low=0, high=1
    )
    dims: int | None = option(None, "number of latent dimensions to use; default: all that were fitted", low=1)
    retrieve: int | None = option(
        None,
        "number of nearest documents in the latent space to add to the candidates per query; auto: 200, or 0 if z is given",
        low=0,
    )
    basis: str | None = option(None, "folder of the fitted basis; default: the one beside the index", names="file")


@dataclass(frozen=True, kw_only=True)
class KernelLSAFitSettings(Settings):
    """Options of `klsa` in train."""

    owner: ClassVar[str] = "klsa"

    kernel: str = option(
        "bm25(k1=2,b=.75)",
        "document kernel, or an expression of kernels and numbers such as 2*bm25(k1=2,b=.75)+vsm, (bm25+vsm)*cosine, "
        "rbf(vsm,gamma=.5) or bm25+0.5*vectors:NAME; of linear, vsm, logentropy, bm25 (k1, b, k3), dirichlet (mu), jm (lam), "
        "cosine, rbf (gamma), polynomial (degree, offset), vectors:NAME",
    )
    field: str = option("contents", "indexed field whose terms the kernel compares")
    dims: int | None = option(None, "number of latent dimensions; default: 300, at most a quarter of the documents", low=1)
    neighbours: str = option(
        "auto",
        "kind of FAISS index for --klsa.retrieve; auto chooses by size",
        choices=("auto", "flat", "ivf", "ivf-fp16", "ivf-sq8", "hnsw"),
    )
    random_state: int = option(0, "seed for the randomised solver, the landmarks and the FAISS index", low=0)
    fold_in: bool = option(False, "fold the documents of the changed index into the existing basis instead of fitting it again")
