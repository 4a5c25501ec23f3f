"""`klsa`: a document's score is smoothed with the scores of documents that are similar to it in a latent space.

Park & Ramamohanarao, "Kernel Latent Semantic Analysis using an Information Retrieval based Kernel" (CIKM 2009). With k_q the
query's scores and U the latent rows of the documents, section 3.3 and the top-z thresholding of section 3.2 give

    score(q) = λ · top_z(k_q(q, F)) Uᵀ I_x U + (1 - λ) · k_q(q, F)

This is computed if z is given. Without z, the query is represented by the mean of its first 20 documents, weighted by the
posterior p(d|q) of `ranking_models.posterior_weights`; documents are compared with this mean by the cosine of their rows of
U Σ^½ (whose inner products are the square root of the document kernel), and both parts are z-scored over the candidates before
they are mixed. The documents nearest to the mean are added to the candidates. docs/reproductions/auto.md compares the two
forms on held-out collections.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kernelsearch.core import artefacts, invariants
from kernelsearch.core.errors import ArtefactError, Flag, OptionError
from kernelsearch.core.rows import scaled_unit_rows, unit_products
from kernelsearch.core.types import Candidates, Query
from kernelsearch.forward import StringTable
from kernelsearch.kernels.ranking_models import POSTERIOR_DOCUMENTS, first_stage_scores, posterior_weights
from kernelsearch.kernels.vectors import VECTOR_FEATURE
from kernelsearch.neighbours import CLUSTERED, Neighbours
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, Context, Explanation, OpenedIndex, Reranker, TrainingData
from kernelsearch.rerankers.explanations import Term
from kernelsearch.rerankers.klsa import KERNEL_LSA
from kernelsearch.rerankers.klsa.settings import KernelLSAFitSettings, KernelLSASettings

logger = logging.getLogger(__name__)

#: The kind and version of a basis among the artefacts.
KIND, VERSION = "latent basis", 1

#: A missing basis is fitted on first use for collections of at most this many documents, which takes seconds.
FIT_ON_USE = 20_000

#: The deviation of scores in single precision, as a share of the largest one, up to which they count as alike.
ROUNDING = 1e-6

#: λ without a given z, and with one.
AUTOMATIC_WEIGHT, PAPER_WEIGHT = 0.5, 0.9

#: Documents to add without a given z: `python -m tools.papers.klsa_settings` shows that they never hurt
#: (docs/reproductions/klsa.md).
AUTOMATIC_RETRIEVE = 200


class LatentBasis:
    """A fitted basis, memory-mapped from the folder `path`; refused with ArtefactError if it has another `fingerprint`.

    - `rows` (documents, dims) float32: U, the documents' latent vectors; norms are at most 1
    - `values` (dims,): singular values, largest first
    - `loadings` (features, dims) float32: each feature's part in each dimension; V where the kernel has a feature map
    - `feature_terms` (features,): the term number of each feature, -1 for the feature of document length, -2 for
      dimensions of vectors
    - `decomposed`: keys of the documents that were decomposed, the others were folded in
    - `meta`: kernel, parameters, captured energy, residual
    """

    def __init__(self, path: str | Path, *, fingerprint: str | None = None) -> None:
        self.path = Path(path)
        self.meta, arrays = artefacts.load(self.path, KIND, VERSION, fingerprint=fingerprint, validate=validate)
        self.rows: NDArray[np.float32] = arrays["rows"]
        self.values: NDArray[np.float64] = arrays["values"]
        self.loadings: NDArray[np.float32] = arrays["loadings"]
        self.feature_terms: NDArray[np.int64] = arrays["feature_terms"]
        if "decomposed" not in arrays or "saved_kernel" not in self.parameters:
            raise ArtefactError(
                "made by an earlier version; fit it again with: python -m kernelsearch.train --index INDEX --rerank klsa",
                path=self.path,
            )
        self.decomposed: NDArray[np.uint64] = arrays["decomposed"]
        self._term_arrays = arrays["term_bytes"], arrays["term_ends"]

    @property
    def dims(self) -> int:
        """The number of latent dimensions."""
        return int(self.rows.shape[1])

    @property
    def parameters(self) -> dict[str, Any]:
        """The kernel, its parameters and the field that the basis was fitted with."""
        return dict(self.meta["parameters"])

    @cached_property
    def terms(self) -> StringTable:
        """The terms of the collection by number, which explanations show."""
        return StringTable(*self._term_arrays)

    @cached_property
    def norms(self) -> NDArray[np.float32]:
        """Norms of the rows, shape (documents,): the share of each document that the basis captures."""
        return np.asarray(np.linalg.norm(self.rows, axis=1))

    @cached_property
    def neighbours(self) -> Neighbours:
        """The FAISS index over the rows of U."""
        for kind in (*CLUSTERED, "hnsw"):
            if (file := self.path / f"neighbours.{kind}").exists():
                return Neighbours.load(file, kind, rows=len(self.rows), dims=self.dims)
        return Neighbours.build(self.rows, "flat")

    def strongest_terms(self, dimension: int, count: int = 5) -> list[tuple[str, str]]:
        """The `count` terms with the largest loadings in a dimension, each after "-" where its sign is opposite to the first's,
        else after "".
        """
        column = np.asarray(self.loadings[:, dimension])
        count = min(count, len(column))
        places = np.argpartition(-np.abs(column), count - 1)[:count]
        places = places[np.argsort(-np.abs(column[places]))]
        numbers = self.feature_terms[places]
        others = {-1: "(length)", VECTOR_FEATURE: "(vector)"}
        terms = map(Term, self.terms.take(numbers[numbers >= 0]))
        words = [next(terms) if number >= 0 else others[number] for number in numbers.tolist()]
        # The sign of a singular vector is arbitrary, so signs are relative to the strongest term.
        same_sign = column[places] * column[places[:1]] >= 0
        return [("" if same else "-", word) for word, same in zip(words, same_sign, strict=True)]


def validate(meta: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Raises ValueError or KeyError for a basis (`meta`) whose `arrays` don't fit each other or have numbers out of range."""
    dims = len(arrays["values"])
    invariants.require_length("values", arrays["values"], dims)
    for name in ("rows", "loadings"):
        if arrays[name].ndim != 2 or arrays[name].shape[1] != dims:
            raise ValueError(f"{name} has shape {arrays[name].shape}, {dims} columns were expected")
    for name in ("rows", "loadings", "values"):
        invariants.require_finite(name, arrays[name])
    if (arrays["values"] < 0).any():
        raise ValueError("values has a negative eigenvalue")
    invariants.require_length("feature_terms", arrays["feature_terms"], len(arrays["loadings"]))
    invariants.require_range("feature_terms", arrays["feature_terms"], VECTOR_FEATURE, len(arrays["term_ends"]))
    invariants.require_offsets("term_ends", arrays["term_ends"], len(arrays["term_bytes"]), first=False)


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
    #: Whose scores k_q is, in explanations: "" for the first stage's.
    score_origin = ""

    def __init__(self, index: OpenedIndex, **options: Any) -> None:
        super().__init__(index, **options)
        self.collection = index.forward
        self.basis = self._load(Path(self.settings.basis or basis_folder(index)))
        fitted_dims = self.basis.dims
        self.dims = self.settings.dims or fitted_dims
        if self.dims > fitted_dims:
            raise OptionError(
                f"{self.dims}, but ", self.basis.path, f" was fitted with {fitted_dims}", option=Flag("dims", self.name)
            )
        self.automatic = self.settings.z is None
        self.z = self.settings.z or POSTERIOR_DOCUMENTS
        chosen = self.settings.lambda_
        self.weight = chosen if chosen is not None else AUTOMATIC_WEIGHT if self.automatic else PAPER_WEIGHT
        wanted = self.settings.retrieve
        self.retrieve = wanted if wanted is not None else AUTOMATIC_RETRIEVE if self.automatic and self.weight else 0
        self._table = np.asarray(self.basis.rows)  # a plain array: small slices of a numpy.memmap take several times as long
        self._roots = np.sqrt(self.basis.values[: self.dims]).astype(np.float32)

    def _load(self, path: Path) -> LatentBasis:
        index, rows = self.index, len(self.collection.live)
        if self.settings.basis is None and not (path / "meta.json").exists():
            command = fitting_command(index)
            if rows > FIT_ON_USE:
                raise ArtefactError(f"no basis has been fitted for this index yet; make one with: {command}", path=path)
            logger.info("klsa: fitting a basis for %d documents (once; `%s` does it with other settings)", rows, command)
            KernelLSA.fit(index, TrainingData(progress=index.progress), KernelLSAFitSettings())
        basis = index.opened(LatentBasis, path)
        if basis.meta["fingerprint"] != index.fingerprint:
            raise ArtefactError(
                "this basis was made for another index, or before this one changed; fit it again with: "
                f"{fitting_command(index)} (",
                Flag("fold-in", "klsa"),
                " keeps the old decomposition)",
                path=path,
            )
        if len(basis.rows) != rows:
            damage = f"{len(basis.rows)} rows for {rows} documents"
            raise ArtefactError(f"damaged ({damage}); fit it again with: {fitting_command(index)}", path=path)
        return basis

    @classmethod
    def fit(cls, index: OpenedIndex, data: TrainingData, settings: KernelLSAFitSettings) -> Path:
        """Fits a basis (or folds the changed index into the old one), saves it and returns its folder."""
        from kernelsearch.rerankers.klsa.basis import fit

        return fit(index, data, settings)

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
        """k_q of the candidates, shape (candidates,): the first stage's scores."""
        return candidates.scores

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
        return np.asarray(self.targets(docs) @ vector, dtype=np.float32)

    def targets(self, docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """The vectors that a query's vector is compared with, shape (documents, dims): the documents' coordinates."""
        return self.coordinates(docs)

    def scale(self, latent: NDArray[np.floating], query_scores: NDArray[np.floating]) -> MixScale:
        """How scores of a list are brought to one scale: as they are with a given z or a λ of 0, else by mean and deviation."""
        if not self.automatic or self.weight == 0 or not len(latent):
            return MixScale()
        mean, deviation = float(latent.mean()), _deviation(latent)
        if self.weight == 1:  # query scores don't count
            return MixScale(mean, deviation)
        own = np.asarray(query_scores, dtype=np.float64)
        return MixScale(mean, deviation, float(own.mean()), _deviation(own))

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
        neighbours, products = self.basis.neighbours.search(vectors, self.retrieve)
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
        """As the base class's, but latent scores are computed once for rerankers that differ in λ only."""
        members = [reranker for reranker in rerankers if isinstance(reranker, KernelLSA)]
        if any(member.retrieve for member in members):
            return super().variants(rerankers, queries, lists, context)
        out: list[list[Candidates]] = [[] for _ in members]
        for query, candidates in zip(queries, lists, strict=True):
            located: dict[KernelLSASettings, LatentQuery] = {}
            for member, ranked in zip(members, out, strict=True):
                scores = candidates.scores
                if candidates.depth and not member.weight:
                    scores = member.query_scores(query, candidates)
                elif candidates.depth:
                    key = replace(member.settings, lambda_=1.0)
                    known = located.setdefault(key, located.get(key) or member.locate(query, candidates))
                    scores = member.mix(known.latent, known.query_scores, member.scale(known.latent, known.query_scores))
                ranked.append(member.ordered(candidates.docs, scores))
        return out

    def _new(self, rows: NDArray[np.int64], products: NDArray[np.float32], candidates: Candidates) -> NDArray[np.int32]:
        """Neighbours that are not in the list, not deleted, and have a positive inner product with the query's vector."""
        near = rows[(rows >= 0) & (products > 0)].astype(np.int32)
        near = near[self.collection.live[near]]
        return np.setdiff1d(near, candidates.docs, assume_unique=True)

    def outside(self, query: Query, candidates: Candidates, docs: NDArray[np.int32], context: Context) -> NDArray[np.floating]:
        """k_q of documents that the first stage didn't list, shape (docs,).

        Computed exactly under the first stage's model, but at most the score of the list's last document: the bound matters
        only for lists from an expanded query or a run file, whose scores the model doesn't explain.
        """
        exact = first_stage_scores(self.collection, context.model, query, docs).astype(np.float32)
        return np.asarray(np.minimum(exact, candidates.scores.min()))

    def mix(self, latent: NDArray[np.floating], query_scores: NDArray[np.floating], scale: MixScale) -> NDArray[np.float64]:
        """λ times the latent scores plus 1 - λ times the query scores, both on one scale, shape (documents,)."""
        smoothed = (latent.astype(np.float64) - scale.latent_mean) / scale.latent_deviation
        if self.weight == 1:
            return np.asarray(smoothed)
        own = (query_scores.astype(np.float64) - scale.score_mean) / scale.score_deviation
        return np.asarray(self.weight * smoothed + (1 - self.weight) * own)

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


def _deviation(values: NDArray[np.floating]) -> float:
    """The standard deviation, 1 for values that are all alike up to their rounding errors, those of single precision."""
    deviation = float(np.asarray(values, dtype=np.float64).std())
    return deviation if deviation > ROUNDING * float(np.abs(values).max(initial=0.0)) else 1.0
