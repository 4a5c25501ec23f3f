"""`klsa`: documents rise with the documents they resemble in a latent space of the collection.

Park & Ramamohanarao, "Kernel Latent Semantic Analysis using an Information Retrieval based Kernel" (CIKM 2009). With k_q the
query's scores and U the latent rows of the documents, section 3.3 and the top-z thresholding of section 3.2 give

    score(q) = λ · top_z(k_q(q, F)) Uᵀ I_x U + (1 - λ) · k_q(q, F)
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.cli import console
from kernelsearch.core.errors import ArtefactError, OptionError
from kernelsearch.core.options import Option, resolve
from kernelsearch.core.types import Candidates, Query
from kernelsearch.engines import Engine
from kernelsearch.kernels import registry
from kernelsearch.kernels.algebra import Kernel
from kernelsearch.kernels.spectral import SOLVERS
from kernelsearch.kernels.spectral.feature_rows import LEAST_PARTS, PART
from kernelsearch.neighbours import CLUSTERED, KINDS, Neighbours
from kernelsearch.rerankers.base import Explanation, Reranker, TrainingData
from kernelsearch.rerankers.klsa.basis import LatentBasis, fit_basis, fold_in
from kernelsearch.rerankers.pert.expansion import term_scores

#: A basis that is missing is fitted on first use for collections of at most this many documents: it takes seconds.
FIT_ON_USE = 20_000

#: Options that are parameters of kernels: option's Python name -> kernel's field.
KERNEL_PARAMETERS = {
    "k1": "k1", "b": "b", "k3": "k3", "mu": "mu", "jm_lambda": "lam", "gamma": "gamma", "degree": "degree", "offset": "offset",
}  # fmt: skip


class KernelLSA(Reranker):
    """Kernel LSA over a basis that `kernelsearch.train` fits."""

    name = "klsa"
    summary = "kernel latent semantic analysis: documents rise with those that resemble the best ones"
    retrieves = True
    fitted_option = "basis"
    options = (
        Option("z", int, 1, "documents whose scores spread through the latent space", low=1),
        Option("lambda", float, 0.9, "share of the latent score; 0 gives the first stage back", low=0, high=1),
        Option("dims", int, None, "latent dimensions to use; default: all that were fitted", low=1),
        Option("retrieve", int, 0, "look up this many nearest documents in the latent space and add the new ones", low=0),
        Option("effort", int, None, "search effort of an ivf or hnsw index: clusters to look into, width of the walk", low=1),
        Option(
            "scores", str, "first", "k_q: the first stage's scores, or the fitted kernel's own", choices=("first", "kernel")
        ),
        Option("basis", str, None, "folder of the fitted basis; default: beside the index"),
    )
    fit_options = (
        Option("kernel", str, "bm25", f"document kernel, such as bm25, linear, 2*bm25+vsm; of {', '.join(registry.KERNELS)}"),
        Option("k1", float, 2.0, "k1 of kernel bm25", low=0),
        Option("b", float, 0.75, "b of kernel bm25", low=0, high=1),
        Option("k3", float, None, "k3 of kernel bm25; default: query counts as they are", low=0),
        Option("mu", float, 1000.0, "mu of kernel dirichlet", low=1e-9),
        Option("jm-lambda", float, 0.1, "lambda of kernel jm", low=1e-9, high=1),
        Option("gamma", float, 1.0, "gamma of kernel rbf", low=1e-12),
        Option("degree", int, 2, "degree of kernel polynomial", low=1),
        Option("offset", float, 1.0, "offset of kernel polynomial", low=0),
        Option("field", str, "contents", "field whose words the kernel compares"),
        Option("dims", int, None, "latent dimensions; default: 300, but at most a quarter of the documents", low=1),
        Option("solver", str, "auto", "of the decomposition; auto goes by size", choices=SOLVERS),
        Option("tolerance", float, 1e-2, "largest relative residual of the randomised solver", low=1e-12),
        Option("landmarks", int, 1000, "documents that stand for all, for kernels without a feature map", low=1),
        Option("neighbours", str, "auto", "FAISS index for --klsa.retrieve; auto goes by size", choices=KINDS),
        Option(
            "memory",
            float,
            None,
            "gigabytes of features to keep between passes, the rest is made again; default: 2, or what --memory-limit allows",
            low=0,
        ),
        Option("parts", int, None, "parts of the collection that workers hold; default: with --engine dask 8 or more", low=1),
        Option("random-state", int, 0, "seed", low=0),
        Option("fold-in", bool, False, "bring an older basis up to the changed index without decomposing again"),
    )

    def __init__(self, index: Index, **options: Any) -> None:
        super().__init__(index, **options)
        self.basis = self._load(Path(self.settings["basis"] or default_place(index)))
        self.dims = self.settings["dims"] or self.basis.dims
        if self.dims > self.basis.dims:
            raise OptionError(f"--klsa.dims: {self.dims}, but {self.basis.path} was fitted with {self.basis.dims}")

    def _load(self, path: Path) -> LatentBasis:
        index = self.index
        command = f"python -m kernelsearch.train {index.shards.flags} --rerank klsa"
        if self.settings["basis"] is None and not (path / "meta.json").exists():
            rows = len(index.forward)
            if rows > FIT_ON_USE:
                raise ArtefactError(f"{path}: no basis has been fitted for this index yet; make one with: {command}")
            console.notice(f"klsa: fitting a basis for {rows} documents (once; `{command}` does it with other settings)")
            self.fit(index, TrainingData())
        basis = LatentBasis(path)
        if basis.meta["fingerprint"] != index.fingerprint:
            raise ArtefactError(
                f"{path}: this basis was made for another index, or before this one changed; fit it again with: {command} "
                "(--klsa.fold-in keeps the old decomposition)"
            )
        return basis

    @classmethod
    def fit(cls, index: Index, data: TrainingData, **options: Any) -> Path:
        """Fits a basis (or folds the changed index into the old one) and saves it with its neighbours' index."""
        given = resolve(cls.fit_options, options, cls.name)
        path = data.output or default_place(index)
        limit = data.memory_limit
        kept = given["memory"] * 1e9 if given["memory"] is not None else 2e9 if limit is None else float(limit.features)

        def finish(folder: Path) -> None:
            if given["neighbours"] != "flat":
                rows = np.load(folder / "rows.npy", mmap_mode="r")
                built = Neighbours.build(rows, given["neighbours"], random_state=given["random_state"], limit=limit)
                if built.kind != "flat":  # flat ones are made from the rows when needed
                    built.save(folder / f"neighbours.{built.kind}")

        if given["fold_in"]:
            old = LatentBasis(path)
            collection = index.field(old.parameters["field"])
            basis = fold_in(path, old, collection, _kernel(old.parameters), memory=kept, finish=finish)
            share = basis.meta["extra"]["folded"] / max(len(basis.rows), 1)
            console.notice(f"klsa: folded in, {share:.1%} of the documents came after the decomposition")
        else:
            recipe = {key: given[key] for key in KERNEL_PARAMETERS}
            with console.progress(label="decomposing", unit="product") as bar:

                def report(products: int, residual: float) -> None:
                    bar.set_postfix_str("" if np.isnan(residual) else f"residual {residual:.1e}", refresh=False)
                    bar.update(products - bar.n)

                basis = fit_basis(
                    path,
                    index.field(given["field"]),
                    _kernel({"kernel": given["kernel"], **recipe}),
                    dims=given["dims"] or default_dims(len(index.forward.live_docs)),
                    solver=given["solver"],
                    tolerance=given["tolerance"],
                    landmarks=given["landmarks"],
                    memory=kept,
                    limit=limit,
                    engine=data.engine,
                    parts=given["parts"] or default_parts(len(index.forward), data.engine),
                    random_state=given["random_state"],
                    parameters=recipe,
                    finish=finish,
                    progress=report,
                )
        extra = basis.meta["extra"]
        console.notice(
            f"klsa: {basis.dims} dimensions hold {extra['energy']:.1%} of kernel {basis.parameters['kernel']}'s energy "
            f"({extra['solver']}, largest relative residual {extra['residual']:.1e})"
        )
        return path

    def score(self, query: Query, candidates: Candidates) -> NDArray[np.floating]:
        """The smoothed score of each candidate."""
        query_scores = self.query_scores(query, candidates)
        weight = self.settings["lambda"]
        if weight == 0:
            return query_scores
        return self._mix(self.latent(self.spread(query_scores, candidates.docs), candidates.docs), query_scores)

    def query_scores(self, query: Query, candidates: Candidates) -> NDArray[np.floating]:
        """k_q of the candidates."""
        if self.settings["scores"] == "first":
            return candidates.scores
        return self.kernel.scores(self.index.field(self.basis.parameters["field"]), query, candidates.docs)

    def spread(self, query_scores: NDArray[np.floating], docs: NDArray[np.int32]) -> NDArray[np.float32]:
        """top_z(k_q(q, F)) Uᵀ I_x: the query's place in the latent space, shape (dims,)."""
        best = self.top(query_scores)
        return query_scores[best].astype(np.float32) @ self.basis.rows[docs[best], : self.dims]

    def top(self, query_scores: NDArray[np.floating]) -> NDArray[np.int64]:
        """The places of the z largest scores, best first; among equals the one that comes first in the list."""
        return np.argsort(-query_scores, kind="stable")[: self.settings["z"]]

    def latent(self, place: NDArray[np.float32], docs: NDArray[np.integer]) -> NDArray[np.float32]:
        """Inner products of a query's place with documents' rows of U, shape (documents,)."""
        return self.basis.rows[docs, : self.dims] @ place

    def apply(self, query: Query, candidates: Candidates) -> Candidates:
        return self.apply_batch([query], [candidates])[0]

    def apply_batch(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[Candidates]:
        """Reranked lists; with `retrieve`, all queries' neighbours are looked up in one call."""
        ranked = [super(KernelLSA, self).apply(query, found) for query, found in zip(queries, lists, strict=True)]
        wanted = [place for place, found in enumerate(lists) if found.depth] if self.settings["retrieve"] else []
        if not wanted:
            return ranked
        scores = [self.query_scores(queries[place], lists[place]) for place in wanted]
        vectors = np.zeros((len(wanted), self.basis.dims), dtype=np.float32)
        for row, (place, known) in enumerate(zip(wanted, scores, strict=True)):
            vectors[row, : self.dims] = self.spread(known, lists[place].docs)
        found, products = self.neighbours.search(vectors, self.settings["retrieve"], effort=self.settings["effort"])
        for row, place in enumerate(wanted):
            new = self._new(found[row], products[row], lists[place])
            if len(new):
                extra = self._mix(self.latent(vectors[row, : self.dims], new), self.outside(queries[place], lists[place], new))
                old = ranked[place]
                docs, merged = self.ordered(np.concatenate([old.docs, new]), np.concatenate([old.scores, extra]))
                ranked[place] = Candidates(docs[: self.hits], merged[: self.hits])
        return ranked

    @classmethod
    def variants(
        cls, rerankers: Sequence[Reranker], queries: Sequence[Query], lists: Sequence[Candidates]
    ) -> list[list[Candidates]]:
        """As the base class's; latent scores depend on z and dims alone, so settings of λ share them."""
        members = [one for one in rerankers if isinstance(one, KernelLSA)]
        if any(one.settings["retrieve"] or one.settings["scores"] != "first" for one in members):
            return super().variants(rerankers, queries, lists)
        found: list[list[Candidates]] = [[] for _ in members]
        for candidates in lists:
            shared: dict[tuple[Path, int, int], NDArray[np.float32]] = {}
            for one, ranked in zip(members, found, strict=True):
                recipe = (one.basis.path, one.dims, one.settings["z"])
                if candidates.depth and one.settings["lambda"] and recipe not in shared:
                    shared[recipe] = one.latent(one.spread(candidates.scores, candidates.docs), candidates.docs)
                mixed = one._mix(shared[recipe], candidates.scores) if recipe in shared else candidates.scores
                ranked.append(one.ordered(candidates.docs, mixed))
        return found

    def _new(self, rows: NDArray[np.int64], products: NDArray[np.float32], candidates: Candidates) -> NDArray[np.int32]:
        """Found documents that the list doesn't have, with something in common with the query's place."""
        kept = rows[(rows >= 0) & (products > 0)].astype(np.int32)
        kept = kept[self.index.forward.live[kept]]
        return np.setdiff1d(kept, candidates.docs, assume_unique=True)

    def outside(self, query: Query, candidates: Candidates, docs: NDArray[np.int32]) -> NDArray[np.floating]:
        """k_q of documents that the first stage didn't list.

        Computed exactly under the first stage's model. They can't score above the list's last one; the bound only matters where
        the list came from elsewhere (an expanded query, a run file), whose scores the model doesn't explain.
        """
        if self.settings["scores"] == "kernel":
            return self.kernel.scores(self.index.field(self.basis.parameters["field"]), query, docs)
        forward = self.index.forward
        parts = term_scores(forward, self.first_stage, forward.term_ids(query.terms), query.weights, docs)
        exact = parts.sum(axis=1, dtype=np.float64).astype(np.float32)
        return np.minimum(exact, candidates.scores.min())

    def _mix(self, latent: NDArray[np.floating], query_scores: NDArray[np.floating]) -> NDArray[np.float64]:
        weight = self.settings["lambda"]
        return weight * latent.astype(np.float64) + (1 - weight) * query_scores.astype(np.float64)

    @cached_property
    def kernel(self) -> Kernel:
        """The kernel that the basis was fitted with."""
        kernel = _kernel(self.basis.parameters)
        if not kernel.has_query:
            raise OptionError(f"--klsa.scores kernel: {kernel} compares documents only; use --klsa.scores first")
        return kernel

    @cached_property
    def neighbours(self) -> Neighbours:
        """The FAISS index over the rows of U."""
        for kind in (*CLUSTERED, "hnsw"):
            if (file := self.basis.path / f"neighbours.{kind}").exists():
                return Neighbours.load(file, kind)
        return Neighbours.build(self.basis.rows, "flat")

    def explain(self, query: Query, candidates: Candidates, doc: int) -> Explanation:
        from kernelsearch.rerankers.klsa.explanation import explain

        return explain(self, query, candidates, doc)

    def plot(self, query: Query, candidates: Candidates, doc: int | None, path: Path) -> None:
        from kernelsearch.rerankers.klsa.explanation import plot

        plot(self, query, candidates, doc, path)


def default_place(index: Index) -> Path:
    """Where an index's basis stands unless told otherwise."""
    return index.artefacts / "klsa"


def default_dims(documents: int) -> int:
    """The paper's 300, but a quarter of a small collection: with as many dimensions as documents U Uᵀ is the identity."""
    return max(1, min(300, documents // 4))


def default_parts(documents: int, engine: Engine) -> int:
    """One part in this process; for workers at least eight, so that all have some and a lost one is soon made again."""
    return 1 if engine.name == "local" else max(LEAST_PARTS, -(-documents // PART))


def _kernel(recipe: dict[str, Any]) -> Kernel:
    """The kernel that a basis's parameters describe."""
    parameters = {field: recipe.get(option) for option, field in KERNEL_PARAMETERS.items()}
    return registry.kernel(recipe["kernel"], parameters)
