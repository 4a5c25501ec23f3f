"""Remakes the tables and figures of docs/reproductions/pert.md from the real collections.

    python -m tools.papers.pert --scratch DIR [--indexes DIR] [--step curves|grid|unseen|page] [--only cran,cisi]

The collections' folder is named by KERNELSEARCH_COLLECTIONS (default ../shared/collections). Indexes are built in the scratch
folder unless ready ones are named. Every system's per-query figures are kept in the scratch folder, so that an interrupted run
goes on where it stopped; `page` only reads them and rewrites the marked parts of the page and its pictures.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

import kernelsearch
from kernelsearch.core.types import Candidates
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.lucene.models import RM3, Feedback, Rocchio
from kernelsearch.papers.pert.reranker import PaperPerturbationReranker
from kernelsearch.rerankers.base import Context
from tools.data.datasets import DATASETS, Dataset, Judgements, Topics, add_collections_option, judged_topics

NAMES = ("cacm", "cran", "cisi", "npl", "nfcorpus")
ALPHAS = tuple(round(0.1 * step, 1) for step in range(11))
GRID_ALPHAS = (0.4, 0.5, 0.6)
HALF = ALPHAS.index(0.5)
DEPTHS = (1000, 20)

#: The setting that the figure and the table at alpha = .5 compare systems at.
FIXED = {"docs": 10, "terms": 20, "temperature": 5.0, "kappa": 0.03}
CURVES: dict[str, dict[str, Any]] = {
    "LOO, √p": {"strategy": "loo", "denominator": "sqrt"},
    "LOO, p (Eq. 4)": {"strategy": "loo", "denominator": "p"},
    "TAT, √p": {"strategy": "tat", "denominator": "sqrt"},
    "TAT, p (Eq. 4)": {"strategy": "tat", "denominator": "p"},
    "G as covariance": {"kernel": "gram"},
    "Jaccard": {"kernel": "jaccard"},
    "random kernel": {"kernel": "random"},
    "RM3, all query terms": {"method": "rm3-all"},
}
ANSERINI = ("Anserini RM3", "Anserini Rocchio")


def grid() -> Iterator[dict[str, Any]]:
    """Settings that the default is chosen from: one change at a time around the fixed one, for the program and for RM3."""
    for method in ("program", "rm3-all"):
        base = {**FIXED, "method": method}
        yield base
        changes = [("docs", 15), ("docs", 20), ("terms", 30), ("terms", 40), ("temperature", 2.0), ("temperature", 10.0)]
        if method == "program":
            changes += [("kappa", 0.01), ("kappa", 0.1), ("kappa", 0.3)]
        for name, value in changes:
            yield {**base, name: value}


def key(setting: dict[str, Any]) -> str:
    """The name of a `setting` in the names of files."""
    return "_".join(f"{name}={value}" for name, value in sorted(setting.items()))


@dataclass
class Collection:
    """A collection's index, judged queries and first-stage lists; nothing is loaded before it is needed.

    `folder` is that of all collections, `index_path` that of the index.
    """

    name: str
    dataset: Dataset
    folder: Path
    index_path: Path

    @property
    def judgements(self) -> str:
        """The name of the file of judgements."""
        return self.dataset.qrels

    @cached_property
    def index(self) -> kernelsearch.Index:
        """The opened index, built where it is missing."""
        return self.dataset.open_index(self.folder, self.index_path)

    @cached_property
    def topics_and_qrels(self) -> tuple[Topics, Judgements]:
        """Texts and judgements by topic id."""
        return self.dataset.read(self.folder)

    @cached_property
    def qids(self) -> list[str]:
        """The ids of the topics that have a relevant document."""
        return judged_topics(*self.topics_and_qrels)

    @cached_property
    def queries(self) -> list[Any]:
        """The analysed judged topics."""
        topics = self.topics_and_qrels[0]
        return self.index.lucene.queries([topics[qid] for qid in self.qids], self.qids)

    @cached_property
    def first(self) -> list[Candidates]:
        """BM25's lists of 1,000 documents."""
        return self.index.lucene.search(self.queries, 1000)

    @cached_property
    def judged(self) -> JudgedRows:
        """The judgements by rows of the index."""
        return JudgedRows(self.index.forward, self.topics_and_qrels[1], self.qids)

    def figures(self, lists: list[list[Candidates]]) -> dict[str, Any]:
        """AP and relevant documents at each depth, (settings, queries), of the ranked `lists` of every setting."""
        out = {"ap": np.array([self.judged.average_precision(ranked) for ranked in lists])}
        out |= {f"found{depth}": np.array([self.judged.retrieved(ranked, depth) for ranked in lists]) for depth in DEPTHS}
        return out

    def sweep(self, options: dict[str, Any], alphas: tuple[float, ...]) -> list[list[Candidates]]:
        """The lists of `pert-paper` with these `options` for each of `alphas`, weights of the expansion."""
        context = Context(hits=1000, threads=2)
        rerankers = [PaperPerturbationReranker(self.index, **{**options, "alpha": alpha}) for alpha in alphas]
        return [reranker.apply_batch(self.queries, self.first, context) for reranker in rerankers]

    def feedback(self, method: Feedback) -> list[Candidates]:
        """The lists of Lucene's feedback `method`."""
        return self.index.lucene.search(self.queries, 1000, feedback=method, threads=2)


def anserini(name: str, alpha: float) -> Feedback:
    """Anserini's method `name` on the same scale: (1 - `alpha`) query + `alpha` feedback."""
    return RM3(original_weight=1 - alpha) if name == "Anserini RM3" else Rocchio(alpha=1 - alpha, beta=alpha)


def collections(arguments: argparse.Namespace) -> list[Collection]:
    """The five collections, cacm twice: with the repaired judgements, and with Anserini's own.

    `arguments` are those of the command line.
    """
    folder, indexes = arguments.collections, Path(arguments.indexes or arguments.scratch / "indexes")
    repaired = {name: replace(DATASETS[name], qrels="qrels.txt") for name in NAMES}
    named_collections = [Collection(name, dataset, folder, indexes / name) for name, dataset in repaired.items()]
    return [*named_collections, Collection("cacm", DATASETS["cacm"], folder, indexes / "cacm")]


def unseen(arguments: argparse.Namespace) -> list[Collection]:
    """Queries that had no part in choosing the default: nfcorpus' development queries, and a click log of football names.

    `arguments` are those of the command line.
    """
    folder, indexes = arguments.collections, Path(arguments.indexes or arguments.scratch / "indexes")
    return [
        Collection("nfcorpus", DATASETS["nfcorpus dev"], folder, indexes / "nfcorpus"),
        Collection("zerozero", DATASETS["zerozero"], folder, indexes / "zerozero"),
    ]


def stored(scratch: Path, collection: Collection, system: str) -> Path:
    """The file below `scratch` of the figures of a `system` on a `collection`."""
    judged = collection.judgements.replace("qrels", "").replace("txt", "").strip(".")
    name = f"{collection.name}-{judged}" if judged else collection.name
    return scratch / "figures" / name / f"{system.replace('/', '-')}.npz"


def make(scratch: Path, collection: Collection, system: str, lists: Any) -> None:
    """Computes and saves the figures of a `system` on a `collection` in `scratch`, unless they are there already.

    `lists` returns the ranked lists of every setting of the system.
    """
    path = stored(scratch, collection, system)
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial.npz")
    np.savez(temporary, **collection.figures(lists()))
    temporary.rename(path)
    print(collection.name, collection.judgements, system, flush=True)


def curves(scratch: Path, named_collections: list[Collection]) -> None:
    """Saves Figure 3's systems at all values of alpha in `scratch`.

    Of `named_collections`, those with the repaired judgements count.
    """
    for collection in named_collections:
        if collection.judgements != "qrels.txt":
            continue
        make(scratch, collection, "BM25", lambda collection=collection: [collection.first])
        for label, options in CURVES.items():
            make(
                scratch,
                collection,
                label,
                lambda collection=collection, options=options: collection.sweep({**FIXED, **options}, ALPHAS),
            )
        for label in ANSERINI:
            make(
                scratch,
                collection,
                label,
                lambda collection=collection, label=label: [
                    collection.first if a == 0 else collection.feedback(anserini(label, a)) for a in ALPHAS
                ],
            )
        make(scratch, collection, "Rocchio as shipped", lambda collection=collection: [collection.feedback(Rocchio())])
        for seed in range(1, 6):
            options = {**FIXED, "kernel": "random", "seed": seed}
            make(
                scratch,
                collection,
                f"random kernel {seed}",
                lambda collection=collection, options=options: collection.sweep(options, (0.5,)),
            )


def grid_search(scratch: Path, named_collections: list[Collection]) -> None:
    """Saves the settings that the default is chosen from in `scratch`, on the judgements that Anserini's published figures use.

    `named_collections` are those of `collections`.
    """
    for collection in named_collections:
        if collection.name == "cacm" and collection.judgements == "qrels.txt":
            continue
        make(scratch, collection, "BM25", lambda collection=collection: [collection.first])
        make(scratch, collection, "RM3 as shipped", lambda collection=collection: [collection.feedback(RM3())])
        for setting in grid():
            make(
                scratch,
                collection,
                key(setting),
                lambda collection=collection, setting=setting: collection.sweep(setting, GRID_ALPHAS),
            )


def default_on(scratch: Path, named_collections: list[Collection]) -> None:
    """Saves the default, and what it is compared with, on `named_collections` that it was not chosen on, in `scratch`."""
    for collection in named_collections:
        make(scratch, collection, "BM25", lambda collection=collection: [collection.first])
        make(scratch, collection, "RM3 as shipped", lambda collection=collection: [collection.feedback(RM3())])
        make(scratch, collection, "Rocchio as shipped", lambda collection=collection: [collection.feedback(Rocchio())])
        make(scratch, collection, "default", lambda collection=collection: collection.sweep({}, (0.5,)))
        make(
            scratch,
            collection,
            "default, RM3 with all query terms",
            lambda collection=collection: collection.sweep({"method": "rm3-all"}, (0.5,)),
        )


def read(scratch: Path, collection: Collection, system: str) -> dict[str, Any]:
    """The figures of a `system` on a `collection` that `make` has saved in `scratch`."""
    with np.load(stored(scratch, collection, system)) as arrays:
        return dict(arrays)


def main() -> None:
    """Measures what the scratch folder lacks and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for indexes and figures")
    parser.add_argument("--indexes", help="folder of ready indexes by collection name")
    parser.add_argument("--step", choices=("curves", "grid", "unseen", "page", "all"), default="all", help="what to do")
    parser.add_argument("--only", help="collections of this step, separated by commas")
    arguments = parser.parse_args()
    named_collections = collections(arguments)
    if arguments.only:
        named_collections = [collection for collection in named_collections if collection.name in arguments.only.split(",")]
    if arguments.step in ("curves", "all"):
        curves(arguments.scratch, named_collections)
    if arguments.step in ("grid", "all"):
        grid_search(arguments.scratch, named_collections)
    if arguments.step in ("unseen", "all"):
        default_on(arguments.scratch, unseen(arguments))
    if arguments.step in ("page", "all"):
        from tools.papers.pert_page import write_page

        write_page(arguments.scratch, named_collections, unseen(arguments))


if __name__ == "__main__":
    main()
