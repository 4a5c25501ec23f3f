"""Regenerates docs/reproductions/fusion.md and its figures: the learners on feature files, similar documents and fusion.

    python tools/reproduce_fusion.py [--collections FOLDER] [--scratch FOLDER] [--parts ltr,similar,fusion,auto,page]

The collections' folder is KERNELSEARCH_COLLECTIONS or ../shared/collections. Indexes, tables of features and results are kept
in the scratch folder; remove it to measure everything again. Runs of Pyserini's PRCL are taken from SCRATCH/prcl-COLLECTION.txt
where they exist; they need the full pyserini.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.evaluation.significance import corrected, paired_t
from kernelsearch.inputs import load_qrels, load_topics
from kernelsearch.learning.choose import Best, query_folds
from kernelsearch.learning.fusers import RRF, CombMNZ, CombSUM
from kernelsearch.learning.letor import read_letor
from kernelsearch.learning.lists import Lists, average_precision, mean_average_precision, normalised, precisions
from kernelsearch.learning.simlistmkl import SimListMKL
from kernelsearch.learning.triplets import SimTripletBoost, SimTripletNet, SimTripletSVM
from kernelsearch.lucene.models import RM3, Rocchio
from kernelsearch.pipeline import FirstStage, Pipeline
from kernelsearch.rerankers.features import Features, parse_recipe
from kernelsearch.rerankers.fusion import RECIPE, SOURCES
from kernelsearch.similarity.engine import SimilarDocuments, truth_from_groups
from kernelsearch.trec import read_run
from kernelsearch.types import Candidates

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "reproductions" / "fusion.md"
FOUR = {
    "SimListMKL": SimListMKL,
    "SimTripletBoost": SimTripletBoost,
    "SimTripletSVM": SimTripletSVM,
    "SimTripletNet": SimTripletNet,
}
#: name -> folder, corpus, (topics, judgements) measured, (topics, judgements) trained on where they differ
COLLECTIONS: dict[str, tuple[str, str, tuple[str, str], tuple[str, str] | None]] = {
    "cran": ("cran", "corpus.jsonl", ("topics.tsv", "qrels.txt"), None),
    "cran, all 1837": ("cran", "corpus.jsonl", ("topics.tsv", "qrels.all1837.txt"), None),
    "cacm": ("cacm", "corpus.anserini.jsonl", ("topics.tsv", "qrels.anserini.txt"), None),
    "cisi": ("cisi", "corpus.jsonl", ("topics.tsv", "qrels.txt"), None),
    "npl": ("npl", "corpus.jsonl", ("topics.tsv", "qrels.txt"), None),
    "nfcorpus": ("nfcorpus", "corpus.jsonl", ("topics.tsv", "qrels.txt"), ("dev.topics.tsv", "dev.qrels.txt")),
}
MEASURES = ("AP", "nDCG@10", "P@10")
FOLDS, SEED, DEPTH, NEGATIVES = 5, 0, 1000, 200
#: What `best` chooses among here: trees inside two rounds of cross-validation take too long for a page.
LINEAR: dict[str, Any] = {"candidates": ("combsum", "svm", "net"), "folds": 3}


def open_index(collections: Path, scratch: Path, folder: str, corpus: str) -> Any:
    path = scratch / "indexes" / folder
    if not path.exists():
        index_verb.main(["--input", str(collections / folder / corpus), "--index", str(path)])
    return kernelsearch.open(path)


# ---------------------------------------------------------------- the paper's experiment: four learners on lists of kernels


def cross_validate(X: NDArray, y: NDArray, qid: NDArray, normalise: str) -> dict[str, Any]:
    """P@1..10, AP of each query and seconds a fold of the four learners and the plain sum, five folds over queries."""
    out: dict[str, Any] = {}
    lists = Lists.of(qid)
    judged = [rows for rows in lists if (y[rows] > 0).any()]
    for name, kind in {**FOUR, "CombSUM": CombSUM}.items():
        scores, seconds = np.zeros(len(y)), []
        for held_out in query_folds(qid, FOLDS, SEED):
            began = time.perf_counter()
            learner = kind(normalise=normalise).fit(X[~held_out], y[~held_out], qid[~held_out])
            seconds.append(time.perf_counter() - began)
            scores[held_out] = learner.predict(X[held_out], qid[held_out])
        out[name] = {
            "P": precisions(scores, y, lists).mean(axis=0).tolist(),
            "AP": [average_precision(scores[rows], y[rows] > 0) for rows in judged],
            "seconds": float(np.mean(seconds)),
        }
    return out


def by_share_of_positives(X: NDArray, y: NDArray, qid: NDArray, normalise: str) -> dict[str, list[float]]:
    """MAP on untouched test queries when only a share of the training positives is kept (Figure 3 of the paper)."""
    held_out = query_folds(qid, FOLDS, SEED)[0]
    chance = np.random.default_rng(SEED)
    lists, out = Lists.of(qid[held_out]), {name: [] for name in FOUR}
    for share in (0.1, 0.25, 0.5, 1.0):
        keep = ~held_out & ((y <= 0) | (chance.random(len(y)) < share))
        for name, kind in FOUR.items():
            learner = kind(normalise=normalise).fit(X[keep], y[keep], qid[keep])
            out[name].append(mean_average_precision(learner.predict(X[held_out], qid[held_out]), y[held_out], lists))
    return out


def measure_lists(collections: Path, scratch: Path, parts: set[str]) -> None:
    """The four learners on MQ2008 and on similar documents."""
    if "ltr" in parts:
        tables = [read_letor(collections / "ltr_mq2008" / f"{name}.txt", 46) for name in ("train", "vali", "test")]
        X, y, qid = (np.concatenate(columns) for columns in zip(*tables, strict=True))
        keep(scratch, "ltr", {"table": cross_validate(X, y, qid, "z"), "shares": by_share_of_positives(X, y, qid, "z")})
    if "similar" in parts:
        for name in ("cran", "nfcorpus"):
            folder, corpus, (_, qrels), _ = COLLECTIONS[name]
            index = open_index(collections, scratch, folder, corpus)
            judged = load_qrels(str(collections / folder / qrels))
            truth = truth_from_groups([docid for docid, grade in one.items() if grade > 0] for one in judged.values())
            finder = SimilarDocuments(index)
            X, y, qid = finder.training_table(truth, limit=400)
            single = {
                kernel: mean_average_precision(X[:, number], y, Lists.of(qid)) for number, kernel in enumerate(finder.recipe)
            }
            table, shares = cross_validate(X, y, qid, "none"), by_share_of_positives(X, y, qid, "none")
            keep(
                scratch,
                f"similar-{name}",
                {"table": table, "shares": shares, "single": single, "documents": len(np.unique(qid))},
            )


# ---------------------------------------------------------------- fusion of first stages, kernels and methods


def feature_table(index: Any, topics: dict[str, str], qrels: Any, cache: Path, sample: bool) -> dict[str, NDArray]:
    """Pools, z-scored features and grades of judged topics; with `sample`, all positives and NEGATIVES drawn others a topic."""
    if cache.exists():
        return dict(np.load(cache))
    names = [qid for qid in topics if any(grade > 0 for grade in qrels.get(qid, {}).values())]
    queries = index.lucene.queries([topics[qid] for qid in names], names)
    features = Features(index, parse_recipe(RECIPE), sources=parse_recipe(SOURCES))
    chance, parts, seconds = np.random.default_rng(SEED), [], 0.0
    for start in range(0, len(queries), 64):
        some = queries[start : start + 64]
        began = time.perf_counter()
        pools = features.pool(some, index.lucene.search(some, DEPTH), DEPTH)
        tables = features.tables(some, pools)
        seconds += time.perf_counter() - began
        for place, (query, pool, table) in enumerate(zip(some, pools, tables, strict=True), start):
            if not pool.depth:
                continue
            rows = index.forward.rows_of(list(qrels[query.qid]))
            grade_of = {int(row): grade for row, grade in zip(rows, qrels[query.qid].values(), strict=True) if row >= 0}
            y = np.array([max(grade_of.get(int(row), 0), 0) for row in pool.docs], dtype=np.float32)
            scaled = normalised(table, Lists.of(np.zeros(pool.depth, dtype=np.int64)), "z").astype(np.float32)
            chosen = np.arange(pool.depth)
            if sample:
                others = np.flatnonzero(y <= 0)
                if len(others) > NEGATIVES:
                    others = chance.choice(others, NEGATIVES, replace=False)
                chosen = np.sort(np.concatenate([np.flatnonzero(y > 0), others]))
            parts.append((pool.docs[chosen], scaled[chosen], y[chosen], np.full(len(chosen), place)))
    docs, X, y, place = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    made = {"docs": docs, "X": X, "y": y, "place": place, "qids": np.array(names), "seconds": np.array(seconds / len(queries))}
    cache.parent.mkdir(parents=True, exist_ok=True)
    np.savez(cache, **made)
    return made


def drawn(table: dict[str, NDArray]) -> NDArray[np.bool_]:
    """Rows to train on: all positives and NEGATIVES uniformly drawn others a topic."""
    chance, kept = np.random.default_rng(SEED), table["y"] > 0
    for rows in Lists.of(table["place"]):
        others = rows[table["y"][rows] <= 0]
        kept[chance.choice(others, min(NEGATIVES, len(others)), replace=False)] = True
    return kept


def run_of(index: Any, table: dict[str, NDArray], scores: NDArray) -> dict[str, list[tuple[str, float]]]:
    """A run of at most DEPTH documents a topic; ties in docid order."""
    run = {}
    for rows in Lists.of(table["place"]):
        docs = table["docs"][rows]
        order = np.lexsort((index.forward.docid_rank[docs], -scores[rows]))[:DEPTH]
        names = index.forward.docids.take(docs[order])
        run[str(table["qids"][table["place"][rows[0]]])] = list(zip(names, scores[rows][order].tolist(), strict=True))
    return run


def measure_fusion(collections: Path, scratch: Path, only: set[str]) -> None:
    for name, (folder, corpus, measured, trained) in COLLECTIONS.items():
        if only and name not in only:
            continue
        index = open_index(collections, scratch, folder, corpus)
        topics, qrels = (
            load(str(collections / folder / file)) for load, file in zip((load_topics, load_qrels), measured, strict=True)
        )
        table = feature_table(
            index, topics, qrels, scratch / "tables" / f"{name.replace(', ', '-').replace(' ', '')}.npz", False
        )
        qrels = {str(qid): qrels[str(qid)] for qid in table["qids"]}
        runs, notes = baselines(index, topics, qrels, scratch, folder), {"ms": 1000 * float(table["seconds"])}
        X, y, place = table["X"].astype(np.float64), table["y"], table["place"]
        recipe = parse_recipe(RECIPE)
        singles = {feature: run_of(index, table, X[:, number]) for number, feature in enumerate(recipe)}
        worth = {feature: evaluate(qrels, run, parse_measures(["AP"])).mean("AP") for feature, run in singles.items()}
        best = max(worth, key=lambda feature: worth[feature])
        runs["best single"], notes["best single"] = singles[best], best
        for label, fuser in (("RRF", RRF()), ("CombSUM", CombSUM(normalise="none")), ("CombMNZ", CombMNZ())):
            runs[label] = run_of(index, table, fuser.fit(X, y, place).predict(X, place))
        learners = {**{label: kind for label, kind in FOUR.items()}, "best": Best}
        for label, kind in learners.items():
            scores, chosen, seconds = np.zeros(len(y)), [], 0.0
            if trained is None:
                kept = drawn(table)
                for held_out in query_folds(place, FOLDS, SEED):
                    rows = kept & ~held_out
                    began = time.perf_counter()
                    learner = kind(normalise="none", **LINEAR if kind is Best else {}).fit(X[rows], y[rows], place[rows])
                    seconds += time.perf_counter() - began
                    scores[held_out] = learner.predict(X[held_out], place[held_out])
                    chosen.append(getattr(learner, "chosen_", learner).name)
            else:
                texts, grades = (
                    load(str(collections / folder / file))
                    for load, file in zip((load_topics, load_qrels), trained, strict=True)
                )
                training = feature_table(index, texts, grades, scratch / "tables" / f"{name}-train.npz", True)
                began = time.perf_counter()
                learner = kind(normalise="none", **LINEAR if kind is Best else {}).fit(
                    training["X"], training["y"], training["place"]
                )
                seconds = time.perf_counter() - began
                notes["training ms"] = 1000 * float(training["seconds"])
                notes["training queries"] = len(training["qids"])
                scores = learner.predict(X, place)
                chosen.append(getattr(learner, "chosen_", learner).name)
            runs[label] = run_of(index, table, scores)
            notes[f"seconds {label}"] = seconds
            if kind is Best:
                notes["chosen"] = chosen
        runs["auto"] = auto_run(index, topics, qrels)
        values = {label: evaluate(qrels, run, parse_measures(MEASURES)).values for label, run in runs.items()}
        keep(scratch, f"fusion-{name}", {"values": values, "notes": notes, "single": worth})
        print(name, {label: round(float(np.mean(list(one["AP"].values()))), 4) for label, one in values.items()}, flush=True)


def auto_run(index: Any, topics: dict[str, str], qrels: Any) -> dict[str, list[tuple[str, float]]]:
    queries = index.lucene.queries([topics[qid] for qid in qrels], list(qrels))
    return as_run(index, queries, Pipeline(index, FirstStage(hits=DEPTH), [("auto", {})]).search(queries))


def measure_auto(collections: Path, scratch: Path, only: set[str]) -> None:
    """Measures `auto` again in results that exist, after its weights have changed."""
    for name, (folder, corpus, measured, _) in COLLECTIONS.items():
        result = kept(scratch, f"fusion-{name}")
        if result is None or (only and name not in only):
            continue
        index = open_index(collections, scratch, folder, corpus)
        topics, qrels = (
            load_topics(str(collections / folder / measured[0])),
            load_qrels(str(collections / folder / measured[1])),
        )
        qrels = {qid: qrels[qid] for qid in result["values"]["BM25"]["AP"]}
        result["values"]["auto"] = evaluate(qrels, auto_run(index, topics, qrels), parse_measures(MEASURES)).values
        keep(scratch, f"fusion-{name}", result)
        print(name, "auto", round(float(np.mean(list(result["values"]["auto"]["AP"].values()))), 4), flush=True)


def as_run(index: Any, queries: list, lists: list[Candidates]) -> dict[str, list[tuple[str, float]]]:
    return {
        query.qid: list(zip(index.forward.docids.take(found.docs), found.scores.tolist(), strict=True))
        for query, found in zip(queries, lists, strict=True)
    }


def baselines(index: Any, topics: dict[str, str], qrels: Any, scratch: Path, folder: str) -> dict[str, Any]:
    """Anserini's own: BM25, RM3, Rocchio; and PRCL's run where there is one."""
    queries = index.lucene.queries([topics[qid] for qid in qrels], list(qrels))
    out = {
        label: as_run(index, queries, index.lucene.search(queries, DEPTH, feedback=feedback))
        for label, feedback in (("BM25", None), ("RM3", RM3()), ("Rocchio", Rocchio()))
    }
    if (scratch / f"prcl-{folder}.txt").exists():
        found = read_run(scratch / f"prcl-{folder}.txt")
        out["PRCL"] = {qid: found[qid] for qid in qrels if qid in found}
    return out


# ---------------------------------------------------------------- results and the page


def keep(scratch: Path, name: str, result: dict[str, Any]) -> None:
    path = scratch / "results"
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{name}.json").write_text(json.dumps(result))


def kept(scratch: Path, name: str) -> dict[str, Any] | None:
    path = scratch / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("KERNELSEARCH_COLLECTIONS") or str(ROOT.parent / "shared" / "collections")
    parser.add_argument("--collections", type=Path, default=Path(default))
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "reproduce-fusion")
    parser.add_argument("--parts", default="ltr,similar,fusion,page")
    parser.add_argument("--only", default="", help="of part fusion: these collections, separated by semicolons")
    given = parser.parse_args()
    parts = set(given.parts.split(","))
    measure_lists(given.collections, given.scratch, parts)
    if "fusion" in parts:
        measure_fusion(given.collections, given.scratch, set(filter(None, given.only.split(";"))))
    if "auto" in parts:
        measure_auto(given.collections, given.scratch, set(filter(None, given.only.split(";"))))
    if "page" in parts:
        from fusion_page import write_page

        write_page(PAGE, lambda name: kept(given.scratch, name), list(COLLECTIONS), paired_t, corrected)


if __name__ == "__main__":
    main()
