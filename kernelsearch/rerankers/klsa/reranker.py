"""`klsa`: a document's score is smoothed with the scores of documents that are similar to it in a latent space.

Park & Ramamohanarao, "Kernel Latent Semantic Analysis using an Information Retrieval based Kernel" (CIKM 2009). With k_q the
query's scores and U the latent rows of the documents, section 3.3 and the top-z thresholding of section 3.2 give

    score(q) = λ · top_z(k_q(q, F)) Uᵀ I_x U + (1 - λ) · k_q(q, F)

This is computed if z is given. Without z, the query is represented by the mean of its first 20 documents, weighted by the
posterior p(d|q) of `kernels.relevance.posterior_weights`; documents are compared with this mean by the cosine of their rows of
U Σ^½ (whose inner products are the square root of the document kernel), and both parts are z-scored over the candidates before
they are mixed. The documents nearest to the mean are added to the candidates. docs/reproductions/auto.md compares the two
forms on held-out collections.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core.errors import ArtefactError, OptionError
from kernelsearch.core.execution import Engine
from kernelsearch.core.rows import divide_rows, scaled_unit_rows, unit_products
from kernelsearch.core.types import Candidates, Query
from kernelsearch.kernels import registry
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.relevance import POSTERIOR_DOCUMENTS, posterior_weights
from kernelsearch.kernels.saved import from_data
from kernelsearch.kernels.spectral.feature_rows import LEAST_PARTS, PART
from kernelsearch.kernels.term_scores import first_stage_scores
from kernelsearch.neighbours import CLUSTERED, Neighbours
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Explanation, OpenedIndex, Reranker, TrainingData
from kernelsearch.rerankers.klsa import KERNEL_LSA
from kernelsearch.rerankers.klsa.basis import LatentBasis, fit_basis, fold_in
from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings, KernelLSASettings

logger = logging.getLogger(__name__)

#: A missing basis is fitted on first use for collections of at most this many documents, which takes seconds.
FIT_ON_USE = 20_000

#: Options of train that are parameters of kernels: {option: field of the kernel}.
KERNEL_PARAMETERS = {
    "k1": "k1", "b": "b", "k3": "k3", "mu": "mu", "jm_lambda": "lam", "gamma": "gamma", "degree": "degree", "offset": "offset",
    "vector_weight": "vector_weight",
}  # fmt: skip

#: The deviation of scores in single precision, as a share of the largest one, up to which they count as alike.
ROUNDING = 1e-6

#: λ without a given z, and with one.
AUTOMATIC_WEIGHT, PAPER_WEIGHT = 0.5, 0.9

#: Documents to add without a given z: `python -m tools.reproduce.klsa_settings` shows that they never hurt
#: (docs/reproductions/klsa.md).
AUTOMATIC_RETRIEVE = 200


class MixScale(NamedTuple):
    """What is subtracted from latent and query scores, and what they are divided by, before they are mixed."""

    latent_mean: float = 0.0
    latent_deviation: float = 1.0
    score_mean: float = 0.0
    score_deviation: float = 1.0


class LatentQuery(NamedTuple):
    """A query and its candidates in the latent space."""

    vector: NDArray[np.float32]  #: the query's latent vector, (dims,)
    query_scores: NDArray[np.floating]  #: k_q of the candidates, (candidates,)
    latent: NDArray[np.float32]  #: inner products of the vector with the candidates' target vectors, (candidates,)
    scale: MixScale  #: brings both kinds of scores to one scale


class KernelLSA(Reranker[KernelLSASettings]):
    """Kernel LSA over a basis that `kernelsearch.train` fits.

    Parameters of the methods: `query_scores` k_q and `latent` scores of a list's documents, both of shape (documents,).
    """

    method = KERNEL_LSA

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self.basis = self._load(Path(self.settings.basis or basis_folder(index)))
        fitted_dims = self.basis.dims
        self.dims = self.settings.dims or fitted_dims
        if self.dims > fitted_dims:
            raise OptionError(f"--klsa.dims: {self.dims}, but {self.basis.path} was fitted with {fitted_dims}")
        self.automatic = self.settings.z is None
        self.z = self.settings.z or POSTERIOR_DOCUMENTS
        chosen = self.settings.lambda_
        self.weight = chosen if chosen is not None else AUTOMATIC_WEIGHT if self.automatic else PAPER_WEIGHT
        wanted = self.settings.retrieve
        self.retrieve = wanted if wanted is not None else AUTOMATIC_RETRIEVE if self.automatic and self.weight else 0
        self._table = np.asarray(self.basis.rows)  # a plain array: small slices of a numpy.memmap take several times as long
        self._roots = np.sqrt(self.basis.values[: self.dims]).astype(np.float32)

    def _load(self, path: Path) -> LatentBasis:
        index, rows = self.index, len(self.index.forward)
        if self.settings.basis is None and not (path / "meta.json").exists():
            command = fitting_command(index)
            if rows > FIT_ON_USE:
                raise ArtefactError(f"{path}: no basis has been fitted for this index yet; make one with: {command}")
            logger.info("klsa: fitting a basis for %d documents (once; `%s` does it with other settings)", rows, command)
            self.fit(index, TrainingData(progress=index.progress), KernelLSAFitSettings())
        basis = LatentBasis(path)
        if basis.meta["fingerprint"] != index.fingerprint:
            raise ArtefactError(
                f"{path}: this basis was made for another index, or before this one changed; fit it again with: "
                f"{fitting_command(index)} (--klsa.fold-in keeps the old decomposition)"
            )
        if len(basis.rows) != rows:
            damage = f"{len(basis.rows)} rows for {rows} documents"
            raise ArtefactError(f"{path}: damaged ({damage}); fit it again with: {fitting_command(index)}")
        return basis

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: KernelLSAFitSettings) -> Path:
        """Fits a basis (or folds the changed index into the old one), saves it and returns its folder.

        A FAISS index over the rows is saved with it where the options ask for one.
        """
        path = data.folder(index, KERNEL_LSA.name)
        limit = data.memory_limit
        memory = settings.memory * 1e9 if settings.memory is not None else 2e9 if limit is None else float(limit.features)

        def finish(folder: Path) -> None:
            if settings.neighbours != "flat":
                rows = np.load(folder / "rows.npy", mmap_mode="r")
                built = Neighbours.build(rows, settings.neighbours, random_state=settings.random_state, limit=limit)
                if built.kind != "flat":  # a flat index is built from the rows when needed
                    built.save(folder / f"neighbours.{built.kind}")

        if settings.fold_in:
            old = LatentBasis(path)
            collection = index.field(old.parameters["field"])
            basis = fold_in(path, old, collection, _kernel(old.parameters, index), memory=memory, finish=finish)
            share = basis.meta["extra"]["folded"] / max(len(collection.live_docs), 1)
            logger.info("klsa: folded in, %.1f%% of the documents came after the decomposition", 100 * share)
        else:
            chosen = settings.to_dict()
            recipe = {key: chosen[key] for key in KERNEL_PARAMETERS}
            with data.progress("decomposing", unit="product") as bar:
                reported = 0

                def report(products: int, residual: float) -> None:
                    nonlocal reported
                    bar.note("" if np.isnan(residual) else f"residual {residual:.1e}")
                    bar.update(products - reported)
                    reported = products

                basis = fit_basis(
                    path,
                    index.field(settings.field),
                    _kernel({"kernel": settings.kernel, **recipe}, index),
                    dims=settings.dims or default_dims(len(index.forward.live_docs)),
                    solver=settings.solver,
                    tolerance=settings.tolerance,
                    landmarks=settings.landmarks,
                    memory=memory,
                    limit=limit,
                    engine=data.engine,
                    parts=settings.parts or default_parts(len(index.forward), data.engine),
                    random_state=settings.random_state,
                    parameters=recipe,
                    finish=finish,
                    progress=report,
                )
        extra = basis.meta["extra"]
        logger.info(
            "klsa: %d dimensions hold %.1f%% of kernel %s's energy (%s, largest relative residual %.1e)",
            *(basis.dims, 100 * extra["energy"], basis.parameters["kernel"], extra["solver"], extra["residual"]),
        )
        return path

    def score(self, query: Query, candidates: Candidates, context: Context = DEFAULT_CONTEXT) -> NDArray[np.floating]:
        """The smoothed score of each candidate."""
        if self.weight == 0:
            return self.query_scores(query, candidates)
        located = self.locate(query, candidates)
        return self.mix(located.latent, located.query_scores, located.scale)

    def locate(self, query: Query, candidates: Candidates) -> LatentQuery:
        """The query and its candidates in the latent space."""
        query_scores = self.query_scores(query, candidates)
        vector = self.spread(query_scores, candidates.docs)
        latent = self.latent(vector, candidates.docs)
        return LatentQuery(vector, query_scores, latent, self.scale(latent, query_scores))

    def query_scores(self, query: Query, candidates: Candidates) -> NDArray[np.floating]:
        """k_q of the candidates, shape (candidates,)."""
        if self.settings.scores == "first":
            return candidates.scores
        return self.kernel.scores(self.index.field(self.basis.parameters["field"]), query, candidates.docs)

    def spread(self, query_scores: NDArray[np.floating], docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """The query's latent vector (dims,): its best documents' coordinates by weight; with a z, top_z(k_q(q, F)) Uᵀ I_x."""
        best = self.top(query_scores)
        return np.asarray(self.document_weights(query_scores[best]) @ self.coordinates(docs[best]))

    def document_weights(self, top_scores: NDArray[np.floating]) -> NDArray[np.float32]:
        """The weights of the best documents, whose `top_scores` are best first: the scores, or their posterior; same shape."""
        if self.automatic:
            return posterior_weights(top_scores.astype(np.float64), self.z).astype(np.float32)
        return top_scores.astype(np.float32)

    def coordinates(self, docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """Documents in the latent space, shape (documents, dims): rows of U; without a given z rows of U Σ^½ of unit length."""
        return scaled_unit_rows(self._table, self._roots, docs) if self.automatic else self._table[docs, : self.dims]

    def top(self, query_scores: NDArray[np.floating]) -> NDArray[np.int64]:
        """Positions of the z largest scores, best first; of equal scores the one that is earlier in the list."""
        return np.argsort(-query_scores, kind="stable")[: self.z]

    def latent(self, vector: NDArray[np.float32], docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """Inner products of a query's latent vector with documents' target vectors, shape (documents,)."""
        if self.automatic:
            return unit_products(self._table, self._roots, vector, docs)
        return np.asarray(self.targets(docs) @ vector)

    def targets(self, docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """The vectors that a query's vector is compared with, shape (documents, dims).

        They are the documents' coordinates; with `cosine` over their length in U Σ, the space of LSI: the query's vector is its
        vector there times Σ.
        """
        coordinates = self.coordinates(docs)
        if not self.settings.cosine or self.automatic:
            return coordinates
        lengths = np.linalg.norm(coordinates * self.basis.values[: self.dims], axis=1)
        return divide_rows(coordinates, lengths.astype(np.float32))

    def scale(self, latent: NDArray[np.floating], query_scores: NDArray[np.floating]) -> MixScale:
        """How scores of a list are brought to one scale: as they are with a given z or a λ of 0, else by mean and deviation."""
        if not self.automatic or self.weight == 0 or not len(latent):
            return MixScale()
        own = np.asarray(query_scores, dtype=np.float64)
        return MixScale(float(latent.mean()), _deviation(latent), float(own.mean()), _deviation(own))

    def apply_batch(
        self, queries: Sequence[Query], lists: Sequence[Candidates], context: Context = DEFAULT_CONTEXT
    ) -> list[Candidates]:
        """The reranked lists; with `retrieve`, the neighbours of all queries are searched for in one call."""
        numbers = [number for number, listed in enumerate(lists) if listed.depth] if self.retrieve else []
        if not numbers:
            return super().apply_batch(queries, lists, context)
        located = [self.locate(queries[number], lists[number]) for number in numbers]
        vectors = np.zeros((len(numbers), self._table.shape[1]), dtype=np.float32)
        vectors[:, : self.dims] = [query.vector for query in located]
        if self.automatic:  # FAISS holds rows of U: an inner product with U Σ^½ is one of U with the vector times Σ^½
            vectors[:, : self.dims] *= self._roots
        neighbours, products = self.neighbours.search(vectors, self.retrieve, effort=self.settings.effort)
        ranked = list(lists)
        for number, query, rows, similarities in zip(numbers, located, neighbours, products, strict=True):
            listed = lists[number]
            scores = self.mix(query.latent, query.query_scores, query.scale)
            new = self._new(rows, similarities, listed)
            if len(new):
                outside = self.outside(queries[number], listed, new, context)
                extra = self.mix(self.latent(query.vector, new), outside, query.scale)
                merged = self.ordered(np.concatenate([listed.docs, new]), np.concatenate([scores, extra]))
                ranked[number] = merged.top(context.hits)
            else:
                ranked[number] = self.ordered(listed.docs, scores)
        return ranked

    @classmethod
    def variants(
        cls,
        rerankers: Sequence[Reranker[KernelLSASettings]],
        queries: Sequence[Query],
        lists: Sequence[Candidates],
        context: Context = DEFAULT_CONTEXT,
    ) -> list[list[Candidates]]:
        """As the base class's, but latent scores are computed once per basis, z and dims: λ doesn't change them."""
        members = [reranker for reranker in rerankers if isinstance(reranker, KernelLSA)]
        if any(member.retrieve or member.settings.scores != "first" for member in members):
            return super().variants(rerankers, queries, lists, context)
        out: list[list[Candidates]] = [[] for _ in members]
        for candidates in lists:
            latent_scores: dict[tuple[Path, int, int | None, bool], NDArray[np.float32]] = {}
            scores = candidates.scores
            for member, ranked in zip(members, out, strict=True):
                if not candidates.depth or not member.weight:
                    ranked.append(member.ordered(candidates.docs, scores))
                    continue
                key = (member.basis.path, member.dims, member.settings.z, member.settings.cosine)
                if key not in latent_scores:
                    latent_scores[key] = member.latent(member.spread(scores, candidates.docs), candidates.docs)
                latent = latent_scores[key]
                ranked.append(member.ordered(candidates.docs, member.mix(latent, scores, member.scale(latent, scores))))
        return out

    def _new(self, rows: NDArray[np.int64], products: NDArray[np.float32], candidates: Candidates) -> NDArray[np.int32]:
        """Neighbours that are not in the list, not deleted, and have a positive inner product with the query's vector."""
        near = rows[(rows >= 0) & (products > 0)].astype(np.int32)
        near = near[self.index.forward.live[near]]
        return np.setdiff1d(near, candidates.docs, assume_unique=True)

    def outside(self, query: Query, candidates: Candidates, docs: NDArray[np.int32], context: Context) -> NDArray[np.floating]:
        """k_q of documents that the first stage didn't list, shape (docs,).

        Computed exactly under the first stage's model, but at most the score of the list's last document: the bound matters
        only for lists from an expanded query or a run file, whose scores the model doesn't explain.
        """
        if self.settings.scores == "kernel":
            return self.kernel.scores(self.index.field(self.basis.parameters["field"]), query, docs)
        exact = first_stage_scores(self.index.forward, context.model, query, docs).astype(np.float32)
        return np.asarray(np.minimum(exact, candidates.scores.min()))

    def mix(self, latent: NDArray[np.floating], query_scores: NDArray[np.floating], scale: MixScale) -> NDArray[np.float64]:
        """λ times the latent scores plus 1 - λ times the query scores, both on one scale, shape (documents,)."""
        smoothed = (latent.astype(np.float64) - scale.latent_mean) / scale.latent_deviation
        own = (query_scores.astype(np.float64) - scale.score_mean) / scale.score_deviation
        return np.asarray(self.weight * smoothed + (1 - self.weight) * own)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel that the basis was fitted with."""
        kernel = _kernel(self.basis.parameters, self.index)
        if not kernel.has_query:
            raise OptionError(f"--klsa.scores kernel: {kernel} compares documents only; use --klsa.scores first")
        return kernel

    @cached_property
    def neighbours(self) -> Neighbours:
        """The FAISS index over the rows of U."""
        for kind in (*CLUSTERED, "hnsw"):
            if (file := self.basis.path / f"neighbours.{kind}").exists():
                return Neighbours.load(file, kind, rows=len(self.basis.rows), dims=self.basis.dims)
        return Neighbours.build(self.basis.rows, "flat")

    def explain(self, query: Query, candidates: Candidates, doc: int, context: Context = DEFAULT_CONTEXT) -> Explanation:
        """The document's score by top-z document and latent dimension."""
        from kernelsearch.rerankers.klsa.explanation import explain

        return explain(self, query, candidates, doc, context)

    def plot(
        self, query: Query, candidates: Candidates, doc: int | None, path: Path, context: Context = DEFAULT_CONTEXT
    ) -> None:
        """Documents in the first two latent dimensions, and the query's position among them as z grows."""
        from kernelsearch.rerankers.klsa.plot import plot

        plot(self, query, candidates, doc, path, context)


def basis_folder(index: OpenedIndex) -> Path:
    """The folder of an index's basis where no other is named."""
    return index.artefacts / KERNEL_LSA.name


def fitting_command(index: OpenedIndex) -> str:
    """The command that fits a basis for an index."""
    return f"python -m kernelsearch.train {index.shards.flags} --rerank klsa"


def has_basis(index: OpenedIndex) -> bool:
    """Whether klsa can be used without training: a basis is fitted, or can be on first use, because the index is small.

    An index without terms has none.
    """
    return (basis_folder(index) / "meta.json").exists() or (len(index.forward.terms) > 0 and len(index.forward) <= FIT_ON_USE)


def default_dims(documents: int) -> int:
    """The paper's 300, but at most a quarter of the documents: with as many dimensions as documents U Uᵀ is the identity."""
    return max(1, min(300, documents // 4))


def default_parts(documents: int, engine: Engine) -> int:
    """Parts of so many `documents`: 1 in this process, for workers of `engine` at least LEAST_PARTS, each quickly remade."""
    return 1 if engine.name == "local" else max(LEAST_PARTS, -(-documents // PART))


def _deviation(values: NDArray[np.floating]) -> float:
    """The standard deviation, 1 for values that are all alike up to their rounding errors, those of single precision."""
    deviation = float(np.asarray(values, dtype=np.float64).std())
    return deviation if deviation > ROUNDING * float(np.abs(values).max(initial=0.0)) else 1.0


def _kernel(parameters: Mapping[str, Any], index: OpenedIndex) -> Kernel:
    """The kernel that the parameters of a basis describe, with the vectors of an index where it names them."""
    saved = parameters.get("saved_kernel")
    if saved is not None:
        return from_data(saved, index.vectors)
    if "saved_kernel" in parameters and "k1" not in parameters:
        raise OptionError(
            f"kernel {parameters['kernel']}: isn't saved with the basis, because its class has no name "
            "(kernels.registry.register, or an entry point, gives one)"
        )
    # A basis of an earlier version, or a kernel from a plugin's function: made again from its name and the options of train.
    options = {field: parameters.get(option) for option, field in KERNEL_PARAMETERS.items()}
    return registry.kernel(parameters["kernel"], options, index.vectors)
