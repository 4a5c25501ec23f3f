"""Learned fusion against its own inputs: the default learner on topics of every kind, related to training topics and new.

Features of all topics of a condition are computed once and cached in the scratch folder; training topics vote and are learned
from fold by fold. `python -m tools.reproduce.fusion --parts conditions,page` measures and writes the page.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

import kernelsearch
from kernelsearch.core.measures import average_precision
from kernelsearch.learning.folds import related_groups, topic_folds
from kernelsearch.learning.ranking.choose import Best
from kernelsearch.learning.ranking.cross_validation import CompleteList
from kernelsearch.learning.ranking.far_queries import FarQueries, find_far_queries
from kernelsearch.learning.ranking.fusers import Learner
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.fusion.features import Features, parse, parse_recipe
from kernelsearch.rerankers.fusion.features.scores import VotesSettings
from kernelsearch.rerankers.fusion.learners import anchored_learner
from kernelsearch.rerankers.fusion.recipes import READING_WEIGHTS
from kernelsearch.rerankers.fusion.settings import RECIPE, SOURCES
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries, TrainingVotes
from tools.data.datasets import DATASETS, Judgements, Topics, judged_topics, open_index
from tools.data.made_topics import conclusions, known_items, read_corpus, titles

#: The collections' own topics, five folds; "A -> B" learns from A and measures B.
COLLECTIONS = ("cran", "cacm", "cisi", "npl", "nfcorpus", "scifact", "scifact train -> scifact", "zerozero")
#: Topics with one right answer, made from the corpora: two folds of MADE topics.
MADE_CONDITIONS = (
    "cran, known items",
    "cran, noisy known items",
    "cacm, noisy known items",
    "cisi, titles",
    "cisi, conclusions",
    "npl, known items",
    "scifact, noisy known items",
)
MADE, DEPTH, NEGATIVES, COMPLETE, SEED = 200, 1000, 200, 300, 0
VOTES = next(name for name in parse_recipe(RECIPE) if name.startswith("votes"))


@dataclass(frozen=True)
class Recipe:
    """The default recipe of `fusion`: its features besides the votes, what adds candidates, auto's weights, and the vectors.

    `vectors` is the name of the vectors, "none" for words alone.
    """

    fixed: tuple[str, ...]
    sources: tuple[str, ...]
    weights: Mapping[str, float]
    vectors: str = "none"

    def learner(self) -> Best:
        """The unfitted learner of `train --rerank fusion` for the features of a Table."""
        return anchored_learner((*self.fixed, VOTES), self.weights, random_state=SEED)


def recipe_of(weights: Mapping[str, float], vectors: str = "none") -> Recipe:
    """The default recipe that starts from the `weights` of `auto` by feature, with the vectors of that name."""
    added = () if vectors == "none" else (f"dense-rm:{vectors}",)
    sources = (*parse_recipe(SOURCES), *(() if vectors == "none" else (f"dense:{vectors}",)))
    fixed = dict.fromkeys([*(name for name in parse_recipe(RECIPE) if name != VOTES), *added, *weights])
    return Recipe(tuple(fixed), sources, weights, vectors)


WORDS = recipe_of(READING_WEIGHTS)


@dataclass(frozen=True)
class Table:
    """Whole pools of a condition's topics with raw features. Topics are numbered; so are those that vote for them.

    `X` (rows, features of the recipe, the votes last), `docs`, `y`, `rank` (order of docids) and `place` (the topic's number)
    have a value per row; `plain` marks what was found without votes. `sims` (topics, voters) are cosines of queries, `relevant`
    is (voters, documents).
    """

    data: dict[str, NDArray[Any]]

    def __getattr__(self, name: str) -> NDArray[Any]:
        return self.data[name]

    @cached_property
    def starts(self) -> NDArray[np.int64]:
        """The first row of each topic, and the number of rows at the end, shape (topics + 1,)."""
        return np.searchsorted(self.place, np.arange(len(self.totals) + 1))

    @cached_property
    def relevant(self) -> sparse.csr_matrix:
        """Which documents are relevant to the voters, shape (voters, documents)."""
        shape = (self.sims.shape[1], int(self.ndocs))
        return sparse.csr_matrix((np.ones(len(self.rel_rows)), (self.rel_cols, self.rel_rows)), shape=shape)

    @cached_property
    def related(self) -> NDArray[np.bool_]:
        """Which voters have a relevant document in common with a topic, shape (topics, voters)."""
        relevant_rows = np.flatnonzero(self.y > 0)
        own = sparse.csr_matrix(
            (np.ones(len(relevant_rows)), (self.place[relevant_rows], self.docs[relevant_rows])),
            shape=(len(self.totals), int(self.ndocs)),
        )
        return np.asarray((own @ self.relevant.T).toarray() > 0)

    def nearness(self, topic: int, voters: NDArray[np.bool_]) -> tuple[float, float]:
        """The largest cosine of a `topic` (its number) with the marked `voters` (voters,), and with unrelated ones of them."""
        unrelated = voters & ~self.related[topic]
        related, new = (float(np.where(marked, self.sims[topic], 0.0).max(initial=0.0)) for marked in (voters, unrelated))
        return related, new

    def entry(self, topic: int, voters: NDArray[np.bool_], pool: NDArray[np.bool_] | None = None) -> Entry:
        """The candidates of a `topic` (its number) with the votes of those `voters` (voters,) that are marked.

        `pool` (rows of the topic,) marks the candidates; by default those that the sources and these votes find.
        """
        rows = slice(self.starts[topic], self.starts[topic + 1])
        settings = parse(VOTES).settings
        assert isinstance(settings, VotesSettings)
        near = np.where(voters, self.sims[topic], 0.0).astype(np.float64)
        votes = np.asarray(self.relevant.T @ near**settings.power)[self.docs[rows]]
        in_pool = self.plain[rows] | (votes > 0) if pool is None else pool
        features = zscores(np.column_stack([self.X[rows][in_pool][:, :-1].astype(np.float64), votes[in_pool]]))
        features[:, -1] *= near.max(initial=0.0) ** settings.fade
        return Entry(features, self.y[rows][in_pool] > 0, self.rank[rows][in_pool], int(self.totals[topic]), in_pool)


@dataclass(frozen=True)
class Entry:
    """A topic's candidates: features, relevance, order of docids; the number of relevant documents, and the pool's rows."""

    features: NDArray[np.float64]
    relevant: NDArray[np.bool_]
    rank: NDArray[np.int32]
    total: int
    pool: NDArray[np.bool_]

    def ap(self, scores: NDArray[np.float64]) -> float:
        """Average precision of the order by `scores` (candidates,), of the first DEPTH documents."""
        order = np.lexsort((self.rank, -scores))[:DEPTH]
        return float(average_precision(np.flatnonzero(self.relevant[order]), self.total))


def compute(
    index: kernelsearch.Index,
    topics: Topics,
    qrels: Judgements,
    voting: tuple[Topics, Judgements] | None,
    cache: Path,
    recipe: Recipe = WORDS,
) -> Table:
    """The table of judged `topics`; all other topics vote, or those of `voting`. AP of BM25 and `auto` come with it.

    `qrels` has the judgements, `index` the documents; the file `cache` has the table where it was computed before. `recipe` has
    the features.
    """
    if not cache.exists():
        qids, forward = judged_topics(topics, qrels), index.forward
        queries = index.lucene.queries([topics[qid] for qid in qids], qids)
        voters, judged = queries, qrels
        if voting is not None:
            names = judged_topics(*voting)
            voters, judged = index.lucene.queries([voting[0][qid] for qid in names], names), voting[1]
        votes = TrainingVotes(index, TrainingQueries.of(voters, judged), leave_out=voting is None)
        features = Features(index, (*recipe.fixed, VOTES), sources=recipe.sources, training_votes=votes)
        plain = Features(index, ("first",), sources=[name for name in recipe.sources if name != VOTES])
        auto, parts, measured = AutoReranker(index, vectors=recipe.vectors), [], []
        for start in range(0, len(queries), 32):
            batch = queries[start : start + 32]
            lists = index.lucene.search(batch, DEPTH)
            pools = features.pool(batch, lists, DEPTH)
            tables, plain_pools = features.tables(batch, pools), plain.pool(batch, lists, DEPTH)
            ranked = auto.apply_batch(batch, lists, Context(hits=DEPTH))
            for number, query in enumerate(batch):
                grades, docs = qrels[query.qid], pools[number].docs
                total = sum(grade > 0 for grade in grades.values())

                def grade_of(rows: NDArray[np.int32], grades: dict[str, int] = grades) -> NDArray[np.int8]:
                    return np.array([max(grades.get(docid, 0), 0) for docid in forward.docids.take(rows)], dtype=np.int8)

                aps = [average_precision(np.flatnonzero(grade_of(ranking[number].docs)), total) for ranking in (lists, ranked)]
                measured.append((total, *aps))
                place = np.full(len(docs), start + number, dtype=np.int32)
                known = np.isin(docs, plain_pools[number].docs)
                parts.append((docs, tables[number].astype(np.float32), grade_of(docs), place, known, forward.docid_rank[docs]))
        arrays = dict(
            zip(("docs", "X", "y", "place", "plain", "rank"), map(np.concatenate, zip(*parts, strict=True)), strict=True)
        )
        totals, bm25, auto_ap = np.array(measured).T
        relevant = votes.relevant.tocoo()
        arrays |= {"totals": totals, "bm25": bm25, "auto": auto_ap, "rel_rows": relevant.row, "rel_cols": relevant.col}
        arrays |= {"sims": np.array([votes.cosines(query) for query in queries], dtype=np.float32), "qids": np.array(qids)}
        cache.parent.mkdir(parents=True, exist_ok=True)
        arrays |= {"names": np.array([*recipe.fixed, VOTES]), "ndocs": np.array(len(forward))}
        np.savez(cache, **arrays)  # type: ignore[arg-type]
    stored = dict(np.load(cache))
    if stored["names"].tolist()[:-1] != list(recipe.fixed):
        raise SystemExit(f"{cache}: features of another recipe; remove it")
    return Table(stored)


@dataclass(frozen=True)
class Fusion:
    """What `train --rerank fusion` makes: the chosen learner, and what ranks topics far from the training topics."""

    best: Best
    far: FarQueries | None

    @property
    def choice(self) -> str:
        """The name of the chosen candidate, and that of the input for far topics."""
        return self.best.choice_ if self.far is None else f"{self.best.choice_} (far: {self.far.far})"

    @property
    def expected(self) -> float:
        """The cross-validated MAP, the mean of both cases: topics as they are, and as new."""
        return float(self.best.tried_[self.best.choice_].mean() if self.far is None else np.mean(self.far.scores))


@dataclass(frozen=True)
class Training:
    """What is learned from: the rows of a table with drawn candidates, complete rankings, and groups of related topics.

    `recipe` has the features and the learner.
    """

    X: NDArray[np.float64]
    y: NDArray[np.float64]
    qid: NDArray[np.int64]
    complete: list[CompleteList]
    groups: dict[int, int]
    recipe: Recipe

    def fitted(self) -> Fusion:
        """The default learner, fitted, and what ranks topics that are far from these."""
        best = self.recipe.learner().fit(self.X, self.y, self.qid, complete=self.complete, groups=self.groups)
        nearness = np.array([entry.nearness for entry in self.complete]).T
        far = find_far_queries(best.cases_, nearness, best.choice_, best.inputs, best.caution)
        if far is not None:
            best.take(far.near, self.X, self.y, self.qid)
        return Fusion(best, far)

    def measured(self, best: Best, table: Table, topics: Sequence[int], voters: NDArray[np.bool_]) -> dict[str, Any]:
        """What every candidate gives, chosen or not: {"tried": cross-validated AP, "fusion" and "as new": AP of `topics`}.

        Each is {candidate: AP per topic}. `best` is fitted to these rows; `table`, `topics` and `voters` are those of `ranked`.
        """
        out: dict[str, Any] = {
            "tried": {name: values.tolist() for name, values in best.tried_.items()},
            "fusion": {},
            "as new": {},
        }
        assert isinstance(best.candidates, Mapping)
        for name, candidate in best.candidates.items():
            learner = candidate.fit(self.X, self.y, self.qid)
            out["fusion"][name] = ranked_by(table, name, learner, topics, voters, as_new=False)
            out["as new"][name] = ranked_by(table, name, learner, topics, voters, as_new=True)
        return out


def learn(table: Table, learned: NDArray[np.bool_], *, voting: bool = True) -> Fusion:
    """What `train --rerank fusion` learns from those topics of a `table` that `learned` (topics,) marks.

    They vote unless `voting` is False.
    """
    return training_data(table, learned, voting=voting).fitted()


def training_data(table: Table, learned: NDArray[np.bool_], *, voting: bool = True, recipe: Recipe = WORDS) -> Training:
    """What `learn` learns from; the parameters are the same, and `recipe` has the features of `table`."""
    numbers, chance = np.flatnonzero(learned), np.random.default_rng(SEED)
    measured = set(np.random.default_rng(SEED).permutation(len(numbers))[:COMPLETE].tolist())
    parts, complete = [], []
    for place, topic in enumerate(numbers.tolist()):
        voters = learned & (np.arange(len(learned)) != topic) & voting
        entry = table.entry(topic, voters)
        if place in measured:
            unrelated = table.entry(topic, voters & ~table.related[topic], entry.pool).features
            features = (matrix.astype(np.float32) for matrix in (entry.features, unrelated))
            related_features, new_features = features
            nearness = table.nearness(topic, voters)
            complete.append(CompleteList(place, related_features, entry.relevant, entry.total, new_features, nearness))
        right, others = np.flatnonzero(entry.relevant), np.flatnonzero(~entry.relevant)
        if len(right) and len(others):
            if len(others) > NEGATIVES:
                others = chance.choice(others, NEGATIVES, replace=False)
            rows = np.sort(np.concatenate([right, others]))
            parts.append((entry.features[rows], entry.relevant[rows].astype(np.float64), np.full(len(rows), place)))
    relevant = [[str(row) for row in table.relevant[topic].indices] for topic in numbers]
    groups = dict(enumerate(related_groups(relevant, -(-len(numbers) // recipe.learner().folds)).tolist()))
    X, y, qid = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return Training(X, y, qid, complete, groups, recipe)


def ranked(table: Table, fusion: Fusion, topics: Sequence[int], voters: NDArray[np.bool_], as_new: bool) -> list[float]:
    """AP of `topics` (numbers in `table`) by a trained `fusion`, with the votes of `voters` (voters,).

    `as_new` leaves out the votes of those that a topic has a relevant document in common with.
    """
    best, far = fusion.best, fusion.far
    learned = ranked_by(table, best.choice_, best.chosen_, topics, voters, as_new)
    if far is None:
        return learned
    by_input = ranked_by(table, far.far, (best.candidates or {})[far.far], topics, voters, as_new)
    is_far = [table.nearness(topic, voters)[as_new] < far.limit for topic in topics]
    return [apart if marked else ap for marked, apart, ap in zip(is_far, by_input, learned, strict=True)]


def ranked_by(
    table: Table, name: str, learner: Learner, topics: Sequence[int], voters: NDArray[np.bool_], as_new: bool
) -> list[float]:
    """AP of `topics` by one fitted candidate, `learner`, with the votes of `voters` (voters,).

    A model that has chosen auto's weights (`name` "auto") ranks as `auto` does. `table` and `as_new` are those of `ranked`.
    """
    if name == "auto":
        return [float(table.auto[topic]) for topic in topics]
    aps = []
    for topic in topics:
        entry = table.entry(topic, voters & ~table.related[topic] if as_new else voters)
        aps.append(entry.ap(learner.predict(entry.features)))
    return aps


#: A table to learn from, its topics that are learned from and vote, and the topics of another table, or of itself, to rank.
Round = tuple[Table, NDArray[np.bool_], NDArray[np.int64]]


def measure_conditions(collections: Path, scratch: Path, only: set[str]) -> None:
    """Measures all conditions, or those whose names are in `only`, and saves AP per topic in the folder `scratch`.

    `collections` is the folder of the collections.
    """
    for name in (*COLLECTIONS, *MADE_CONDITIONS):
        result = scratch / "results" / f"condition-{name}.json"
        if (only and name not in only) or result.exists():
            continue
        training, _, measured = name.rpartition(" -> ")
        table = open_table(measured, collections, scratch, training)
        if training:
            learned = open_table(training, collections, scratch, "")
            rounds = [(learned, np.ones(len(learned.totals), dtype=bool), np.arange(len(table.totals)))]
        else:
            rounds = fold_rounds(table, 5 if name in COLLECTIONS else 2)
        values = measured_rounds(table, rounds)
        result.parent.mkdir(parents=True, exist_ok=True)
        result.write_text(json.dumps(values), encoding="utf-8")
        print(
            name, {label: round(float(np.mean(values[label])), 4) for label in ("BM25", "auto", "fusion", "as new")}, flush=True
        )


def fold_rounds(table: Table, folds: int) -> list[Round]:
    """The rounds of a cross-validation over the topics of `table`, in so many `folds`."""
    assigned = topic_folds(table.qids, folds, SEED)
    return [(table, assigned != fold, np.flatnonzero(assigned == fold)) for fold in np.unique(assigned)]


def measured_rounds(table: Table, rounds: Sequence[Round], recipe: Recipe = WORDS) -> dict[str, Any]:
    """AP per topic of `table`, whose topics the `rounds` rank: of BM25, auto, fusion, and fusion on topics as new.

    Also which topics are related to training topics, what each round chose ("choices"), and what every candidate gives
    ("candidates", see `Training.measured`). `recipe` has the features of `table`.
    """
    count = len(table.totals)
    related, fusion, as_new = np.zeros(count, dtype=bool), np.zeros(count), np.zeros(count)
    choices, candidates = [], []
    for source, voters, held_out in rounds:
        training_rows = training_data(source, voters, recipe=recipe)
        trained, topics = training_rows.fitted(), held_out.tolist()
        choices.append(trained.choice)
        related[held_out] = (table.related[held_out] & voters).any(axis=1)
        fusion[held_out] = ranked(table, trained, topics, voters, as_new=False)
        as_new[held_out] = ranked(table, trained, topics, voters, as_new=True)
        every = training_rows.measured(trained.best, table, topics, voters)
        candidates.append({"held out": topics, "expected": trained.expected, **every})
    values: dict[str, Any] = {"BM25": table.bm25.tolist(), "auto": table.auto.tolist(), "fusion": fusion.tolist()}
    return values | {"as new": as_new.tolist(), "related": related.tolist(), "choices": choices, "candidates": candidates}


def open_table(name: str, collections: Path, scratch: Path, training: str) -> Table:
    """The table of a dataset's topics, voted for by those of the dataset `training` where it is named; or of made topics.

    `name` is a dataset or "DATASET, KIND"; `collections` and `scratch` are the folders of the collections and of the cache.
    """
    cache = scratch / "tables" / f"{training + ' -> ' if training else ''}{name}.npz"
    dataset = DATASETS[name.partition(", ")[0] if name not in DATASETS else name]
    path = scratch / "indexes" / dataset.folder
    if name in DATASETS:
        voting = DATASETS[training].read(collections) if training else None
        return compute(dataset.open_index(collections, path), *dataset.read(collections), voting, cache)
    kind, documents = name.partition(", ")[2], read_corpus(collections / dataset.folder / dataset.corpus)
    if kind.endswith("known items"):
        made = known_items(documents, MADE, noise=5 if kind.startswith("noisy") else 0, codes=False)
        return compute(dataset.open_index(collections, path), *made, None, cache)
    bodies, topics, qrels = titles(documents, MADE) if kind == "titles" else conclusions(documents, MADE, codes=False)
    source = scratch / f"{dataset.folder}-{kind}.jsonl"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text("".join(json.dumps(body) + "\n" for body in bodies), encoding="utf-8")
    return compute(open_index(scratch / "indexes" / f"{dataset.folder}-{kind}", source), topics, qrels, None, cache)
