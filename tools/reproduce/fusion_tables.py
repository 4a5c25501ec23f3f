"""Fusion of first stages, kernels and methods on the real collections: the tables of tools.reproduce.fusion."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.types import Candidates
from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.learning.folds import query_folds
from kernelsearch.learning.ranking.fusers import CombSUM, Learner
from kernelsearch.learning.ranking.lists import Lists, normalise_features
from kernelsearch.learning.ranking.simlistmkl import SimListMKL
from kernelsearch.learning.ranking.triplets import SimTripletNet
from kernelsearch.lucene.index import FirstStage
from kernelsearch.lucene.models import RM3, Rocchio
from kernelsearch.papers.ltr.files import CANDIDATES
from kernelsearch.papers.ltr.fusers import CombNonzero, TiedRRF
from kernelsearch.papers.ltr.triplets import SimTripletBoost, SimTripletSVM
from kernelsearch.rerankers.fusion.features import Features, parse_recipe
from kernelsearch.rerankers.fusion.learners import make_learner
from kernelsearch.rerankers.fusion.settings import RECIPE, SOURCES
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries, TrainingVotes
from kernelsearch.trec import read_run
from tools.data.datasets import DATASETS, judged_topics

FOUR: dict[str, type[Learner]] = {
    "SimListMKL": SimListMKL,
    "SimTripletBoost": SimTripletBoost,
    "SimTripletSVM": SimTripletSVM,
    "SimTripletNet": SimTripletNet,
}
#: Upper bounds of the share of relevant documents per query, as in Figure 3 of the paper.
RATIOS = (0.1, 0.2, 0.3, 0.4, 0.5)
#: The measured collections; where one has training topics of its own, they are learned from.
COLLECTIONS = ("cran", "cran, all 1837", "cacm", "cisi", "npl", "nfcorpus")
MEASURES = ("AP", "nDCG@10", "P@10")
FOLDS, SEED, DEPTH, NEGATIVES = 5, 0, 1000, 200
#: The features that don't depend on what was learned from; votes do, and are made fold by fold (their `power` is POWER here).
FIXED = tuple(name for name in parse_recipe(RECIPE) if not name.startswith("votes"))
FEEDBACK = tuple(name for name in parse_recipe(SOURCES) if not name.startswith("votes"))
POWER = 2.0


def open_dataset(collections: Path, scratch: Path, name: str) -> kernelsearch.Index:
    """The index of the collection `name` of `collections` in the folder `scratch`, built where it is missing."""
    dataset = DATASETS[name]
    return dataset.open_index(collections, scratch / "indexes" / dataset.folder)


def save_result(scratch: Path, name: str, result: dict[str, Any]) -> None:
    """Saves `result` under `name` in `scratch`, as JSON."""
    path = scratch / "results"
    path.mkdir(parents=True, exist_ok=True)
    (path / f"{name}.json").write_text(json.dumps(result))


def read_result(scratch: Path, name: str) -> dict[str, Any] | None:
    """The result that was saved under `name` in `scratch`; None where there is none."""
    path = scratch / "results" / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def feature_table(
    index: Any, topics: dict[str, str], qrels: Any, cache: Path, sample: bool = False, memory: TrainingQueries | None = None
) -> dict[str, NDArray]:
    """Pools, features and grades of judged topics; the last column are the votes of training queries, or of all other topics.

    Without `sample`: whole pools with raw features, whatever any fold may want (`first` marks the documents that the first
    stage, RM3 or Rocchio found). With it, a table to learn from, z-scored: all positives and NEGATIVES drawn others per topic.
    `topics` and `qrels` are those of `index`, `memory` are the training queries; the file `cache` has the table where it was
    computed before.
    """
    if cache.exists():
        return dict(np.load(cache))
    names = judged_topics(topics, qrels)
    queries = index.lucene.queries([topics[qid] for qid in names], names)
    training_votes = TrainingVotes(index, memory or TrainingQueries.of(queries, qrels), leave_out=True)
    features = Features(index, (*FIXED, "votes"), sources=parse_recipe(SOURCES), training_votes=training_votes)
    plain = Features(index, ("first",), sources=FEEDBACK)
    chance, parts, seconds = np.random.default_rng(SEED), [], 0.0
    for start in range(0, len(queries), 64):
        batch = queries[start : start + 64]
        began = time.process_time()
        lists = index.lucene.search(batch, DEPTH)
        pools = features.pool(batch, lists, DEPTH)
        tables = features.tables(batch, pools)
        seconds += time.process_time() - began
        own = plain.pool(batch, lists, DEPTH) if not sample else pools
        for place, (query, pool, table, own_pool) in enumerate(zip(batch, pools, tables, own, strict=True), start):
            if not pool.depth:
                continue
            rows = index.forward.rows_of(list(qrels[query.qid]))
            grade_of = {int(row): grade for row, grade in zip(rows, qrels[query.qid].values(), strict=True) if row >= 0}
            y = np.array([max(grade_of.get(int(row), 0), 0) for row in pool.docs], dtype=np.float32)
            chosen: NDArray[np.int64] = np.arange(pool.depth)
            if sample:
                table = normalise_features(table, Lists.of(np.zeros(pool.depth, dtype=np.int64)), "z")
                chosen = drawn(y, chance)
            first = np.isin(pool.docs, own_pool.docs)
            parts.append((pool.docs[chosen], table[chosen], y[chosen], np.full(len(chosen), place), first[chosen]))
    columns = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    made: dict[str, Any] = dict(zip(("docs", "X", "y", "place", "first"), columns, strict=True))
    made["qids"] = np.array(names)
    made["seconds"] = np.array(seconds / len(queries))
    cache.parent.mkdir(parents=True, exist_ok=True)
    np.savez(cache, **made)
    return made


def drawn(y: NDArray, chance: np.random.Generator) -> NDArray[np.int64]:
    """A topic's rows to learn from, of grades `y`: all positives and NEGATIVES others, drawn uniformly with `chance`."""
    others = np.flatnonzero(y <= 0)
    if len(others) > NEGATIVES:
        others = chance.choice(others, NEGATIVES, replace=False)
    return np.sort(np.concatenate([np.flatnonzero(y > 0), others]))


def without_votes(table: dict[str, NDArray]) -> dict[str, NDArray]:
    """The `table` of what the first stage, RM3 and Rocchio found, z-scored, without the column of votes."""
    kept_rows = {key: table[key][table["first"]] for key in ("docs", "y", "place")}
    X = normalise_features(table["X"][table["first"]][:, :-1], Lists.of(kept_rows["place"]), "z")
    return {**table, **kept_rows, "X": X}


def run_of(index: Any, table: dict[str, NDArray], scores: NDArray) -> dict[str, list[tuple[str, float]]]:
    """A run of at most DEPTH documents per topic of `table` by `scores` (rows,); ties in the order of the docids of `index`."""
    run = {}
    for rows in Lists.of(table["place"]):
        docs = table["docs"][rows]
        order = np.lexsort((index.forward.docid_rank[docs], -scores[rows]))[:DEPTH]
        names = index.forward.docids.take(docs[order])
        run[str(table["qids"][table["place"][rows[0]]])] = list(zip(names, scores[rows][order].tolist(), strict=True))
    return run


@dataclass
class Fold:
    """What is learned from, (X, y, place), and what is ranked with it; the last column of X are the votes."""

    X: NDArray
    y: NDArray
    place: NDArray
    ranked: dict[str, NDArray]

    def run(self, index: Any, learner: Learner, with_votes: bool) -> dict[str, list[tuple[str, float]]]:
        """The run of the ranked topics after `learner` was fitted to this fold; `with_votes` includes the last column."""
        columns = slice(None) if with_votes else slice(0, -1)
        learner.fit(self.X[:, columns], self.y, self.place)
        return run_of(index, self.ranked, learner.predict(self.ranked["X"][:, columns], self.ranked["place"]))


def with_memory(index: Any, table: dict[str, NDArray], topics: dict[str, str], memory: TrainingQueries) -> dict[str, NDArray]:
    """A `table` of whole pools with the votes of the training queries `memory`: their documents come in, features are z-scored.

    `index` and `topics` are those of the table.
    """
    names, training_votes = [str(qid) for qid in table["qids"]], TrainingVotes(index, memory, leave_out=True)
    queries, column = index.lucene.queries([topics[qid] for qid in names], names), np.zeros(len(table["y"]))
    for rows in Lists.of(table["place"]):
        column[rows] = training_votes.votes(queries[int(table["place"][rows[0]])], POWER)[table["docs"][rows]]
    wanted = table["first"] | (column > 0)
    out = {key: table[key][wanted] for key in ("docs", "y", "place")}
    X = np.column_stack([table["X"][wanted][:, :-1], column[wanted]])
    return {**table, **out, "X": normalise_features(X, Lists.of(out["place"]), "z")}


def remembered(index: Any, names: list[str], topics: dict[str, str], qrels: Any) -> TrainingQueries:
    """The topics with these ids (`names`) and their judgements in `qrels` as training queries."""
    return TrainingQueries.of(index.lucene.queries([topics[qid] for qid in names], names), qrels)


def folds_of(index: Any, table: dict[str, NDArray], topics: dict[str, str], qrels: Any) -> Iterator[Fold]:
    """Five folds over the topics of `table`; what is held out is neither learned from nor votes.

    `topics` and `qrels` are those of `index`.
    """
    for held_out in query_folds(table["qids"], FOLDS, SEED):
        learned = [str(qid) for qid in table["qids"][~held_out]]
        whole = with_memory(index, table, topics, remembered(index, learned, topics, qrels))
        out, chance = held_out[whole["place"]], np.random.default_rng(SEED)
        rows = np.concatenate([rows[drawn(whole["y"][rows], chance)] for rows in Lists.of(whole["place"]) if not out[rows[0]]])
        ranked = {**whole, **{key: whole[key][out] for key in ("docs", "X", "y", "place")}}
        yield Fold(whole["X"][rows], whole["y"][rows], whole["place"][rows], ranked)


def best_of(normalise: str) -> Learner:
    """The choice among the candidates of ltr, whose features are normalised by `normalise`."""
    return make_learner("best", candidates=CANDIDATES, normalise=normalise)


def measure_fusion(collections: Path, scratch: Path, only: set[str]) -> None:
    """Measures baselines, fusers and learners on the `collections`, and saves the results in the folder `scratch`.

    Where `only` has names, other collections are left out.
    """
    for name in COLLECTIONS:
        if only and name not in only:
            continue
        index, dataset = open_dataset(collections, scratch, name), DATASETS[name]
        topics, qrels = dataset.read(collections)
        label = name.replace(", ", "-").replace(" ", "")
        memory = None
        if (to_learn := dataset.read_training(collections)) is not None:
            texts, grades = to_learn
            training = feature_table(index, texts, grades, scratch / "tables" / f"{name}-train.npz", sample=True)
            memory = remembered(index, [str(qid) for qid in training["qids"]], texts, grades)
        table = feature_table(index, topics, qrels, scratch / "tables" / f"{label}.npz", memory=memory)
        qrels = {str(qid): qrels[str(qid)] for qid in table["qids"]}
        runs = baselines(index, topics, qrels, scratch, dataset.folder)
        notes: dict[str, Any] = {"ms": 1000 * float(table["seconds"])}
        plain = without_votes(table)
        singles = {feature: run_of(index, plain, plain["X"][:, number]) for number, feature in enumerate(FIXED)}
        worth = {feature: evaluate(qrels, run, parse_measures(["AP"])).mean("AP") for feature, run in singles.items()}
        best = max(worth, key=lambda feature: worth[feature])
        runs["best single"], notes["best single"] = singles[best], best
        for label, fuser in (("TiedRRF", TiedRRF()), ("CombSUM", CombSUM(normalise="none")), ("CombNonzero", CombNonzero())):
            scores = fuser.fit(plain["X"], plain["y"], plain["place"]).predict(plain["X"], plain["place"])
            runs[label] = run_of(index, plain, scores)
        if memory is None:
            folds = list(folds_of(index, table, topics, qrels))
        else:
            ranked = with_memory(index, table, topics, memory)
            folds = [Fold(training["X"], training["y"], training["place"], ranked)]
            notes |= {"training queries": len(training["qids"]), "training ms": 1000 * float(training["seconds"])}
        kinds: dict[str, tuple[Any, bool]] = {label: (kind, True) for label, kind in FOUR.items()}
        for label, (kind, with_votes) in {**kinds, "best": (best_of, True), "best, no votes": (best_of, False)}.items():
            learners, began = [kind(normalise="none") for _ in folds], time.process_time()
            runs[label] = {}
            for fold, learner in zip(folds, learners, strict=True):
                runs[label] |= fold.run(index, learner, with_votes)
            notes[f"seconds {label}"] = time.process_time() - began
            notes[f"chosen {label}"] = [getattr(learner, "chosen_", learner).name for learner in learners]
        runs["auto"] = auto_run(index, topics, qrels)
        values = {label: evaluate(qrels, run, parse_measures(MEASURES)).values for label, run in runs.items()}
        save_result(scratch, f"fusion-{name}", {"values": values, "notes": notes, "single": worth})
        print(name, {label: round(float(np.mean(list(row["AP"].values()))), 4) for label, row in values.items()}, flush=True)


def auto_run(index: Any, topics: dict[str, str], qrels: Any) -> dict[str, list[tuple[str, float]]]:
    """The run of `auto` on `index` for the topics that `qrels` has."""
    queries = index.lucene.queries([topics[qid] for qid in qrels], list(qrels))
    return as_run(index, queries, Pipeline(index, FirstStage(hits=DEPTH), [("auto", {})]).search(queries))


def measure_auto(collections: Path, scratch: Path, only: set[str]) -> None:
    """Measures `auto` again in results that exist, after its weights have changed.

    The parameters are those of `measure_fusion`.
    """
    for name in COLLECTIONS:
        result = read_result(scratch, f"fusion-{name}")
        if result is None or (only and name not in only):
            continue
        index = open_dataset(collections, scratch, name)
        topics, qrels = DATASETS[name].read(collections)
        qrels = {qid: qrels[qid] for qid in result["values"]["BM25"]["AP"]}
        result["values"]["auto"] = evaluate(qrels, auto_run(index, topics, qrels), parse_measures(MEASURES)).values
        save_result(scratch, f"fusion-{name}", result)
        print(name, "auto", round(float(np.mean(list(result["values"]["auto"]["AP"].values()))), 4), flush=True)


def as_run(index: Any, queries: list, lists: list[Candidates]) -> dict[str, list[tuple[str, float]]]:
    """The ranked `lists` of `queries` as a run: {qid: [(docid, score), ...]}."""
    return {
        query.qid: list(zip(index.forward.docids.take(ranked.docs), ranked.scores.tolist(), strict=True))
        for query, ranked in zip(queries, lists, strict=True)
    }


def baselines(index: Any, topics: dict[str, str], qrels: Any, scratch: Path, folder: str) -> dict[str, Any]:
    """Anserini's own: BM25, RM3, Rocchio; and the runs of Pyserini's PRCL where tools.reproduce.prcl_runs has made them.

    Runs of the topics that `qrels` has, by row; `folder` is the collection's name in the files of PRCL in `scratch`.
    """
    queries = index.lucene.queries([topics[qid] for qid in qrels], list(qrels))
    out = {
        label: as_run(index, queries, index.lucene.search(queries, DEPTH, feedback=feedback))
        for label, feedback in (("BM25", None), ("RM3", RM3()), ("Rocchio", Rocchio()))
    }
    for label, file in (("PRCL", f"prcl-{folder}.txt"), ("RM3 + PRCL", f"rm3-prcl-{folder}.txt")):
        if (scratch / file).exists():
            run = read_run(scratch / file)
            out[label] = {qid: run[qid] for qid in qrels if qid in run}
    return out
