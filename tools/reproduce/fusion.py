"""Regenerates docs/reproductions/fusion.md and its figures: the learners on feature files, similar documents and fusion.

    python -m tools.reproduce.fusion [--collections FOLDER] [--scratch FOLDER] [--parts PART,...]

Parts: ltr, similar, fusion, auto, conditions, few, page.

The collections' folder is KERNELSEARCH_COLLECTIONS or ../shared/collections. Indexes, tables of features and results are kept
in the scratch folder; remove it to measure everything again. Runs of Pyserini's PRCL need the full pyserini and are made by
tools/reproduce/prcl_runs.py; the tables hold them where they are in the scratch folder.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from kernelsearch.evaluation.significance import corrected, paired_t
from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.learning.ranking.lists import Lists, cautious_order, list_average_precision, mean_average_precision
from kernelsearch.papers.ltr.letor import read_letor
from kernelsearch.papers.ltr.online import OASIS, OKWL, OnlineSimListMKL
from kernelsearch.similarity.engine import SimilarDocuments, truth_from_groups
from tools import ROOT
from tools.data.datasets import DATASETS, add_collections_option
from tools.reproduce import fusion_few
from tools.reproduce.fusion_conditions import measure_conditions
from tools.reproduce.fusion_conditions_page import BEGIN, END, section
from tools.reproduce.fusion_tables import (
    COLLECTIONS,
    FOLDS,
    FOUR,
    RATIOS,
    SEED,
    measure_auto,
    measure_fusion,
    open_dataset,
    read_result,
    save_result,
)
from tools.reproduce.pages import replace_between

PAGE = ROOT / "docs" / "reproductions" / "fusion.md"


def precisions(scores: NDArray, y: NDArray, lists: Lists, depth: int = 10) -> NDArray[np.float64]:
    """P@1..depth of each of `lists` that has something relevant, shape (queries, depth); ties as in `cautious_order`.

    `scores` and grades `y` have one value per row.
    """
    out = []
    for rows in lists:
        relevant = y[rows] > 0
        if relevant.any():
            hits = relevant[cautious_order(scores[rows], relevant)][:depth]
            out.append(np.cumsum(np.pad(hits, (0, depth - len(hits)))) / np.arange(1, depth + 1))
    return np.array(out).reshape(-1, depth)


def cross_validate(X: NDArray, y: NDArray, qid: NDArray, normalise: str) -> dict[str, Any]:
    """P@1..10, AP of each query and seconds per fold of the four learners and the plain sum, five folds over queries.

    `X` has shape (rows, features), `y` (rows,) the grades, `qid` (rows,) the query of each row; `normalise` is that of the
    learners.
    """
    out: dict[str, Any] = {}
    lists = Lists.of(qid)
    judged = [rows for rows in lists if (y[rows] > 0).any()]
    kinds: dict[str, Any] = {**FOUR, "CombSUM": CombSUM}
    for name, kind in kinds.items():
        scores, seconds = np.zeros(len(y)), []
        for held_out in query_folds(qid, FOLDS, SEED):
            began = time.perf_counter()
            learner = kind(normalise=normalise).fit(X[~held_out], y[~held_out], qid[~held_out])
            seconds.append(time.perf_counter() - began)
            scores[held_out] = learner.predict(X[held_out], qid[held_out])
        out[name] = {
            "P": precisions(scores, y, lists).mean(axis=0).tolist(),
            "AP": [list_average_precision(scores[rows], y[rows] > 0) for rows in judged],
            "seconds": float(np.mean(seconds)),
        }
    return out


def by_share_of_positives(X: NDArray, y: NDArray, qid: NDArray, normalise: str) -> dict[str, list[float]]:
    """MAP on untouched test queries when only a share of the training positives is kept; a list over shares per learner.

    The parameters are those of `cross_validate`.
    """
    held_out = query_folds(qid, FOLDS, SEED)[0]
    chance = np.random.default_rng(SEED)
    lists = Lists.of(qid[held_out])
    out: dict[str, list[float]] = {name: [] for name in FOUR}
    kinds: dict[str, Any] = dict(FOUR)
    for share in (0.1, 0.25, 0.5, 1.0):
        chosen_rows = ~held_out & ((y <= 0) | (chance.random(len(y)) < share))
        for name, kind in kinds.items():
            learner = kind(normalise=normalise).fit(X[chosen_rows], y[chosen_rows], qid[chosen_rows])
            out[name].append(mean_average_precision(learner.predict(X[held_out], qid[held_out]), y[held_out], lists))
    return out


def by_ratio_of_positives(X: NDArray, y: NDArray, qid: NDArray, normalise: str) -> dict[str, Any]:
    """Cross-validated MAP on the queries less than a ratio of whose documents are relevant (Figure 3 of the paper).

    Queries without a relevant document are left out. The online learners are measured beside the four. The parameters are those
    of `cross_validate`.
    """
    lists = Lists.of(qid)
    positive = lists.spread(np.array([(y[rows] > 0).mean() for rows in lists]))
    kinds: dict[str, Any] = {**FOUR, "OKWL": OKWL, "OASIS": OASIS, "OnlineSimListMKL": OnlineSimListMKL}
    out: dict[str, Any] = {"queries": [], "MAP": {name: [] for name in kinds}}
    for ratio in RATIOS:
        rows = (positive > 0) & (positive < ratio)
        table, labels, ids = X[rows], y[rows], qid[rows]
        out["queries"].append(len(np.unique(ids)))
        for name, kind in kinds.items():
            scores = np.zeros(len(labels))
            for held_out in query_folds(ids, FOLDS, SEED):
                learner = kind(normalise=normalise).fit(table[~held_out], labels[~held_out], ids[~held_out])
                scores[held_out] = learner.predict(table[held_out], ids[held_out])
            out["MAP"][name].append(mean_average_precision(scores, labels, Lists.of(ids)))
    return out


def measure_lists(collections: Path, scratch: Path, parts: set[str]) -> None:
    """Saves the results of the four learners on MQ2008 and on similar documents in `scratch`, as far as `parts` has them.

    `collections` is the folder of the collections; of `parts`, "ltr" and "similar" count here.
    """
    if "ltr" in parts:
        tables = [read_letor(collections / "ltr_mq2008" / f"{name}.txt", 46) for name in ("train", "vali", "test")]
        X, y, qid = (np.concatenate(columns) for columns in zip(*tables, strict=True))
        table, shares = cross_validate(X, y, qid, "z"), by_share_of_positives(X, y, qid, "z")
        save_result(scratch, "ltr", {"table": table, "shares": shares, "ratios": by_ratio_of_positives(X, y, qid, "z")})
    if "similar" in parts:
        for name in ("cran", "nfcorpus"):
            index = open_dataset(collections, scratch, name)
            _, judged = DATASETS[name].read(collections)
            truth = truth_from_groups([docid for docid, grade in grades.items() if grade > 0] for grades in judged.values())
            finder = SimilarDocuments(index)
            X, y, qid = finder.training_table(truth, limit=400)
            single = {
                kernel: mean_average_precision(X[:, number], y, Lists.of(qid)) for number, kernel in enumerate(finder.recipe)
            }
            table, shares = cross_validate(X, y, qid, "none"), by_share_of_positives(X, y, qid, "none")
            save_result(
                scratch,
                f"similar-{name}",
                {"table": table, "shares": shares, "single": single, "documents": len(np.unique(qid))},
            )


def main() -> None:
    """Measures the parts that are asked for and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument(
        "--scratch", type=Path, default=ROOT / "runs" / "reproduce-fusion", help="folder for indexes and results"
    )
    parser.add_argument("--parts", default="ltr,similar,fusion,conditions,few,page", help="what to measure")
    parser.add_argument("--only", default="", help="of parts fusion and conditions: these, separated by semicolons")
    arguments = parser.parse_args()
    parts = set(arguments.parts.split(","))
    measure_lists(arguments.collections, arguments.scratch, parts)
    if "fusion" in parts:
        measure_fusion(arguments.collections, arguments.scratch, set(filter(None, arguments.only.split(";"))))
    if "auto" in parts:
        measure_auto(arguments.collections, arguments.scratch, set(filter(None, arguments.only.split(";"))))
    if "conditions" in parts:
        measure_conditions(arguments.collections, arguments.scratch, set(filter(None, arguments.only.split(";"))))
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(replace_between(text, BEGIN, END, section(arguments.scratch)), encoding="utf-8")
    if "few" in parts:
        fusion_few.measure_few(arguments.collections, arguments.scratch)
        text = PAGE.read_text(encoding="utf-8")
        few = fusion_few.few_section(arguments.scratch)
        PAGE.write_text(replace_between(text, fusion_few.BEGIN, fusion_few.END, few), encoding="utf-8")
    if "page" in parts:
        from tools.reproduce.fusion_page import write_page

        conditions = f"{BEGIN}\n{section(arguments.scratch)}\n{END}\n\n"
        conditions += f"{fusion_few.BEGIN}\n{fusion_few.few_section(arguments.scratch)}\n{fusion_few.END}\n\n"
        write_page(PAGE, conditions, lambda name: read_result(arguments.scratch, name), list(COLLECTIONS), paired_t, corrected)


if __name__ == "__main__":
    main()
