"""`klsa-paper`: the printed form of kernel LSA over the basis of `klsa`, with the baselines that the paper compares it with.

Park & Ramamohanarao, "Kernel Latent Semantic Analysis using an Information Retrieval based Kernel" (CIKM 2009), sections 3.2
and 3.3: `KernelLSA` with a given z. k_q may be the fitted kernel's scores instead of the first stage's; with the kernel
`linear`, `vsm` or `logentropy`, every document a candidate, z as large and λ = 1 this is latent semantic indexing, by inner
products or by the cosine (Dumais 1991).
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import Flag, OptionError
from kernelsearch.core.rows import divide_rows
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.papers.klsa import KERNEL_LSA_PAPER
from kernelsearch.papers.klsa.settings import KernelLSAPaperSettings
from kernelsearch.rerankers.base import Context, OpenedIndex, TrainingData
from kernelsearch.rerankers.klsa.basis import basis_kernel
from kernelsearch.rerankers.klsa.reranker import KernelLSA, fitting_command


class KernelLSAPaper(KernelLSA):
    """Kernel LSA with a given z. The parameters of the methods are those of `KernelLSA`."""

    method = KERNEL_LSA_PAPER
    settings: KernelLSAPaperSettings

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        if self.settings.scores == "kernel":
            self.score_origin = "the fitted kernel"

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: object) -> NoReturn:
        """Raises OptionError: the basis is that of `klsa`."""
        raise OptionError(f"uses the basis of klsa: {fitting_command(index)}", option=Flag("rerank", value=cls.method.name))

    def query_scores(self, query: Query, candidates: Candidates) -> NDArray[np.floating]:
        """k_q of the candidates, shape (candidates,): the first stage's scores, or those of the fitted kernel."""
        return self._kernel_scores(query, candidates.docs) if self.score_origin else candidates.scores

    def outside(self, query: Query, candidates: Candidates, docs: NDArray[np.int32], context: Context) -> NDArray[np.floating]:
        """k_q of documents that the first stage didn't list, shape (docs,)."""
        return self._kernel_scores(query, docs) if self.score_origin else super().outside(query, candidates, docs, context)

    def targets(self, docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """Rows of U, shape (documents, dims); with `cosine` over the documents' lengths in U Σ, the space of LSI.

        The query's vector is its vector in that space times Σ.
        """
        coordinates = self.coordinates(docs)
        if not self.settings.cosine:
            return coordinates
        lengths = np.linalg.norm(coordinates * self.basis.values[: self.dims], axis=1)
        return divide_rows(coordinates, lengths.astype(np.float32))

    def _kernel_scores(self, query: Query, docs: NDArray[np.int32]) -> NDArray[np.floating]:
        return self.kernel.scores(self.index.field(self.basis.parameters["field"]), query, docs)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel that the basis was fitted with."""
        kernel = basis_kernel(self.basis, self.index)
        if not kernel.has_query:
            raise OptionError(
                f"{kernel} compares documents only; use ",
                Flag("scores", self.name, value="first"),
                option=Flag("scores", self.name, value="kernel"),
            )
        return kernel
