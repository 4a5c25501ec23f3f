"""`pert`: expands the query by what its best documents say, with an eye on the risk, and searches again.

Collins-Thompson, "Robust Word Similarity Estimation Using Perturbation Kernels" (ICTIR 2009).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.api.index import Index
from kernelsearch.core.errors import OptionError
from kernelsearch.core.options import Option
from kernelsearch.core.types import Candidates, Query
from kernelsearch.rerankers.base import CannotAct, Explanation, Reranker
from kernelsearch.rerankers.pert.expansion import Expander, Expansion, read_vectors, term_scores
from kernelsearch.rerankers.pert.explanation import contributions, grouped, word_records
from kernelsearch.rerankers.pert.plot import draw, plane
from kernelsearch.trec.weighted_queries import read_weighted_queries, weighted_line, write_weighted_queries


class PerturbationReranker(Reranker):
    """Query expansion as a second search (default) or as rescoring of the candidates."""

    name = "pert"
    summary = "expand the query by a relevance model, weighing words against their risk, and search again"
    retrieves = True
    options = (
        Option(
            "method",
            str,
            "program",
            "program: the risk-aware program; rm3-all: a relevance model that keeps all query terms; rm3, rm1: Anserini's",
            choices=("program", "rm3-all", "rm3", "rm1"),
        ),
        Option("alpha", float, 0.5, "weight of the expansion against the query; 0 keeps the first stage", low=0, high=1),
        Option("docs", int, 10, "feedback documents", low=1),
        Option("terms", int, 20, "words to add at most", low=1),
        Option("kernel", str, "perturbation", "the words' similarity", choices=("perturbation", "gram", "jaccard", "random")),
        Option("strategy", str, "loo", "how the query is perturbed", choices=("loo", "tat", "dirichlet")),
        Option("denominator", str, "sqrt", "below the line of Eq. 4: p as printed, or its square root", choices=("sqrt", "p")),
        Option("draws", int, 8, "random variants of strategy dirichlet", low=1),
        Option("seed", int, 0, "of strategy dirichlet and kernel random", low=0),
        Option("kappa", float, 0.01, "weight of the risk in the program", low=0),
        Option("gamma", float, 0.75, "extra risk of words far from the query's terms", low=0),
        Option("support", float, 0.95, "least value of a query term in the program", low=0, high=1),
        Option("balance", float, None, "most that an aspect of the query may differ from the average, in words", low=0),
        Option("coverage", float, None, "least new words, by likeness, for each query term", low=0),
        Option("budget", float, None, "most new words in sum", low=0),
        Option("weighting", str, "softmax", "weights of the feedback documents", choices=("softmax", "score", "uniform")),
        Option("temperature", float, 5.0, "of softmax", low=1e-6),
        Option("smoothing", float, 0.01, "share of the collection's model in relevance models", low=1e-6, high=1),
        Option("max-df", float, 0.1, "largest share of the documents that a new word may be in", low=0, high=1),
        Option("pool", int, 200, "candidates that the query's variants choose their documents from", low=1),
        Option("rescore", bool, False, "rescore the candidates instead of searching again"),
        Option("hits", int, None, "documents of the second search; default: as many as the first stage was asked for", low=1),
        Option(
            "vectors", str, None, "a file of perturbations of your own instead of a strategy: qid, tab, a weight for each term"
        ),
        Option("save-queries", str, None, "write the expanded queries to this file, as JSON lines; - prints them"),
        Option("queries", str, None, "read expanded queries from this file instead of making them"),
        Option("groups", int, 4, "groups of words in explanations and pictures, at most", low=1),
    )

    def __init__(self, index: Index, **options: Any) -> None:
        super().__init__(index, **options)
        vectors = read_vectors(self.settings["vectors"]) if self.settings["vectors"] else None
        self.expander = Expander(index.forward, self.settings, vectors)
        self.read = read_weighted_queries(self.settings["queries"]) if self.settings["queries"] else None
        self.made: dict[str, Query] = {}  #: expanded queries so far, where they are to be saved
        self.alpha = 1.0 if self.settings["method"] == "rm1" else self.settings["alpha"]

    def expansion(self, query: Query, candidates: Candidates) -> Expansion:
        """What the query grows into, before it is mixed with the query."""
        return self.expander.expand(query, candidates, self.first_stage)

    def expanded(self, query: Query, candidates: Candidates) -> Query:
        """The weighted query of the second search."""
        if self.read is not None:
            if query.qid not in self.read:
                raise CannotAct(f"{self.settings['queries']} has no expanded query for it")
            return self.read[query.qid]
        return self.expansion(query, candidates).mixed(self.alpha)

    def score(self, query: Query, candidates: Candidates) -> NDArray[np.floating]:
        """The candidates' scores for the expanded query, equal to those of a second search."""
        return self._scores(self.expanded(query, candidates), candidates.docs)

    def apply(self, query: Query, candidates: Candidates) -> Candidates:
        return self.apply_batch([query], [candidates])[0]

    def apply_batch(self, queries: Sequence[Query], lists: Sequence[Candidates]) -> list[Candidates]:
        """The lists of the expanded queries; all second searches are one call into Lucene."""
        found = list(lists)
        if self.alpha == 0:
            return found
        wanted: list[int] = []
        expanded: list[Query] = []
        for place, (query, candidates) in enumerate(zip(queries, lists, strict=True)):
            try:
                expanded.append(self.expanded(query, candidates))
                wanted.append(place)
            except CannotAct as reason:
                self.keep(reason)
        self._save(expanded)
        if self.settings["rescore"]:
            again = [
                self.ordered(lists[place].docs, self._scores(query, lists[place].docs))
                for place, query in zip(wanted, expanded, strict=True)
            ]
        else:
            again = self._search(expanded, max((one.depth for one in lists), default=0))
        for place, better in zip(wanted, again, strict=True):
            found[place] = better
        return found

    def sweep(self, queries: Sequence[Query], lists: Sequence[Candidates], alphas: Sequence[float]) -> list[list[Candidates]]:
        """The lists at several values of alpha, [alpha][query]: one expansion a query, one call into Lucene for them all."""
        grown: list[Expansion | None] = []
        for query, candidates in zip(queries, lists, strict=True):
            try:
                grown.append(self.expansion(query, candidates))
            except CannotAct:
                grown.append(None)
        mixed = [one.mixed(alpha) for alpha in alphas if alpha > 0 for one in grown if one is not None]
        results = iter(self._search(mixed, max((one.depth for one in lists), default=0)))
        return [
            [candidates if one is None or alpha == 0 else next(results) for one, candidates in zip(grown, lists, strict=True)]
            for alpha in alphas
        ]

    def explain(self, query: Query, candidates: Candidates, doc: int) -> Explanation:
        """The document's score by word of the expanded query, and every word's relevance, risk, group and source."""
        index = self.index.forward
        records: list[dict[str, Any]] = []
        expanded = self.expanded(query, candidates)
        if self.read is None:
            expansion = self.expansion(query, candidates)
            records = word_records(index, expansion, grouped(expansion, self.settings["groups"]))
        rows = np.array([doc], dtype=np.int32)
        parts = term_scores(index, self.first_stage, index.term_ids(expanded.terms), expanded.weights, rows)[0].astype(
            np.float64
        )
        notes: dict[str, Any] = {"expanded_query": dict(zip(expanded.terms, expanded.weights, strict=True)), "words": records}
        if self.read is None and expansion.coordinates.size:
            points, axes = plane(expansion, self._strategy())
            notes["axes"] = list(axes)
            for record, (x, y) in zip(records, points.tolist(), strict=True):
                record.update(x=x, y=y)
        reasons = contributions(query, expanded, parts, records)
        return Explanation(self.name, index.docids[doc], float(sum(one.value for one in reasons)), reasons, notes)

    def plot(self, query: Query, candidates: Candidates, doc: int | None, path: Path) -> None:
        """Draws the expansion's words in perturbation coordinates."""
        expansion = self.expansion(query, candidates)
        if not expansion.coordinates.size:
            raise OptionError(
                "--plot: only --pert.method program with --pert.kernel perturbation or gram has coordinates to draw"
            )
        draw(expansion, grouped(expansion, self.settings["groups"]), self._strategy(), path)

    def _strategy(self) -> str:
        return "given" if self.settings["vectors"] else self.settings["strategy"]

    def _save(self, queries: Sequence[Query]) -> None:
        target = self.settings["save_queries"]
        if target == "-":
            print("\n".join(weighted_line(query) for query in queries))
        elif target:
            self.made.update((query.qid, query) for query in queries)
            write_weighted_queries(target, self.made.values())

    def _search(self, queries: Sequence[Query], depth: int) -> list[Candidates]:
        hits = self.settings["hits"] or self.hits or depth
        return self.index.lucene.search(queries, hits, model=self.first_stage, threads=self.threads)

    def _scores(self, query: Query, docs: NDArray[np.int32]) -> NDArray[np.float32]:
        index = self.index.forward
        parts = term_scores(index, self.first_stage, index.term_ids(query.terms), query.weights, docs)
        return parts.sum(axis=1, dtype=np.float64).astype(np.float32)
