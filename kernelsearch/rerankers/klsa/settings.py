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
    effort: int | None = option(
        None, "search effort of the FAISS index: clusters to search (ivf), size of the candidate list (hnsw)", low=1
    )
    scores: str = option(
        "first", "query scores k_q to smooth: the first stage's, or those of the fitted kernel", choices=("first", "kernel")
    )
    cosine: bool = option(
        False,
        "with --klsa.z, divide latent scores by the length of the document's latent vector, as in LSI with the cosine; use it "
        "with --klsa.lambda 1, because these scores are not on the scale of k_q (without --klsa.z the cosine is always used)",
    )
    basis: str | None = option(None, "folder of the fitted basis; default: the one beside the index", names="file")


@dataclass(frozen=True, kw_only=True)
class KernelLSAFitSettings(Settings):
    """Options of `klsa` in train."""

    owner: ClassVar[str] = "klsa"

    kernel: str = option(
        "bm25",
        "document kernel, or an expression of kernels and numbers such as 2*bm25+vsm, (bm25+vsm)*cosine or cosine(bm25); "
        "of linear, vsm, logentropy, bm25, dirichlet, jm, cosine, rbf, polynomial, vectors:NAME",
    )
    k1: float = option(2.0, "k1 of kernel bm25", low=0)
    b: float = option(0.75, "b of kernel bm25", low=0, high=1)
    k3: float | None = option(None, "k3 of kernel bm25; default: query term frequencies count linearly", low=0)
    mu: float = option(1000.0, "mu of kernel dirichlet", low=1e-09)
    jm_lambda: float = option(0.1, "lambda of kernel jm", low=1e-09, high=1)
    gamma: float = option(1.0, "gamma of kernel rbf", low=1e-12)
    degree: int = option(2, "degree of kernel polynomial", low=1)
    offset: float = option(1.0, "offset of kernel polynomial", low=0)
    vector_weight: float = option(1.0, "weight of kernel vectors:NAME in a sum such as bm25+vectors:minilm", low=0)
    field: str = option("contents", "indexed field whose terms the kernel compares")
    dims: int | None = option(None, "number of latent dimensions; default: 300, at most a quarter of the documents", low=1)
    solver: str = option("auto", "solver of the decomposition; auto chooses by size", choices=("auto", "arpack", "randomised"))
    tolerance: float = option(0.01, "largest relative residual of the randomised solver", low=1e-12)
    landmarks: int = option(1000, "number of landmark documents (Nyström) for kernels without a feature map", low=1)
    neighbours: str = option(
        "auto",
        "kind of FAISS index for --klsa.retrieve; auto chooses by size",
        choices=("auto", "flat", "ivf", "ivf-fp16", "ivf-sq8", "hnsw"),
    )
    memory: float | None = option(
        None,
        "gigabytes of features to keep between passes; the rest is computed again; default: 2, or what --memory-limit allows",
        low=0,
    )
    parts: int | None = option(
        None, "number of parts of the collection that workers hold; default: 1, with --engine dask 8 or more", low=1
    )
    random_state: int = option(0, "seed for the randomised solver, the landmarks and the FAISS index", low=0)
    fold_in: bool = option(False, "fold the documents of the changed index into the existing basis instead of fitting it again")
