"""`auto` without harm: what it gains per kind of query, how its weights were chosen, and what was tried besides.

    python -m tools.reproduce.auto [--collections FOLDER] [--scratch FOLDER] [--output docs/reproductions/auto.md]

Features of every condition are computed once and cached in the scratch folder. Weights are chosen by coordinate ascent on all
collections but one, and measured on that one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.core.measures import average_precision
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.rerankers.auto.reranker import MATCHED, AutoReranker
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.recipes import AUTO_WEIGHTS, CERTAINTY, MATCH, PLAIN, READING_WEIGHTS
from tools import ROOT
from tools.data.datasets import DATASETS, Judgements, Topics, add_collections_option, judged_topics, open_index
from tools.data.made_topics import Documents, conclusions, known_items, read_corpus, titles
from tools.reproduce.claims import section as claims_section
from tools.reproduce.pages import markdown_table, rounded

#: Candidates per source, and the most topics of a condition.
DEPTH, TOPICS = 500, 250
TOPICAL = ("cran", "cacm", "cisi", "npl", "nfcorpus dev", "nfcorpus")
CLAIMS = ("scifact train", "scifact")
CORPORA = ("cran", "cacm", "cisi", "npl", "nfcorpus", "scifact")
KINDS = ("topical", "claims", "known items", "noisy known items", "titles", "conclusions")
#: The features that weights are searched over, and what else is measured alone.
SEARCHED = ("first", *READING_WEIGHTS, "cosine", "pert")
ALONE = ("rm3", "rm", "rm:sharpness=0", "rm:sharpness=2", "rm:sharpness=10", "rm:sharpness=20", "mslm", "pert",
         "top:docs=5", "top:docs=20,sharpness=5", "klsa:z=5,lambda=1", "klsa:lambda=1", "klsa",
         *(name for name in READING_WEIGHTS if name.startswith("read:")))  # fmt: skip
RECIPE = tuple(dict.fromkeys((*SEARCHED, *ALONE)))
GRID = (0.0, 0.5, 1.0, 2.0, 3.0)


@dataclass(frozen=True)
class Condition:
    """Topics of one kind on one corpus: features of their candidates, z-scored per topic and padded to the longest pool.

    `tables` has shape (topics, candidates, features); `present` and `relevant`, (topics, candidates), say which ones exist
    and which are relevant. Candidates are in the first stage's order, in which ties are broken.
    """

    name: str
    kind: str
    corpus: str
    tables: NDArray[np.float32]
    present: NDArray[np.bool_]
    relevant: NDArray[np.bool_]
    totals: NDArray[np.int64]
    auto_ap: NDArray[np.float64]  #: AP per topic of `--rerank auto` itself

    def ap(self, weights: Mapping[str, float]) -> NDArray[np.float64]:
        """AP per topic of a weighted sum of features.

        As in `auto`, the language model takes the place of the first stage's score among the best MATCHED documents.
        """
        vector = np.array([weights.get(name, 0.0) for name in RECIPE], dtype=np.float32)
        two_passes = bool(weights.get(MATCH)) and sum(map(bool, weights.values())) > 1
        wide = vector.copy()
        if two_passes:
            wide[RECIPE.index(PLAIN)] += wide[RECIPE.index(MATCH)]
            wide[RECIPE.index(MATCH)] = 0
        order = np.argsort(np.where(self.present, -(self.tables @ wide), np.inf), axis=1, kind="stable")
        if two_passes:
            best = order[:, :MATCHED]
            used = np.flatnonzero(vector)
            table = self.tables[np.arange(len(best))[:, None], best][:, :, used].astype(np.float64)
            there = np.take_along_axis(self.present, best, axis=1)
            count = np.maximum(there.sum(axis=1), 1)[:, None]
            table = np.where(there[:, :, None], table, 0.0)
            centred = np.where(there[:, :, None], table - (table.sum(axis=1) / count)[:, None], 0.0)
            deviation = np.sqrt((centred**2).sum(axis=1) / count)
            scaled = vector[used] / np.where(deviation > 1e-9, deviation, np.inf)
            again = np.where(there, -np.einsum("tcf,tf->tc", centred, scaled), np.inf)
            order[:, :MATCHED] = np.take_along_axis(best, np.argsort(again, axis=1, kind="stable"), axis=1)
        hits = np.take_along_axis(self.relevant, order, axis=1)
        precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
        return np.asarray((precision * hits).sum(axis=1) / self.totals)

    @cached_property
    def base(self) -> NDArray[np.float64]:
        """AP per topic of the first stage."""
        return self.ap({"first": 1.0})

    def gain(self, weights: Mapping[str, float]) -> float:
        """The relative change in MAP over the first stage."""
        return float(self.ap(weights).mean() / self.base.mean() - 1)


def conditions(collections: Path, scratch: Path) -> Iterator[Condition]:
    """All conditions, one after the other; their features come from the scratch folder where they were computed before."""
    for name in (*TOPICAL, *CLAIMS):
        dataset = DATASETS[name]
        index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
        kind = "topical" if name in TOPICAL else "claims"
        yield measured(name, kind, dataset.folder, index, *dataset.read(collections), scratch)
    for corpus in CORPORA:
        dataset = DATASETS[corpus]
        index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
        documents = read_corpus(collections / dataset.folder / dataset.corpus)
        for kind, noise in (("known items", 0), ("noisy known items", 5)):
            yield measured(f"{corpus}, {kind}", kind, corpus, index, *known_items(documents, 80, noise), scratch)
        for kind, made in (("titles", titles(documents, 120)), ("conclusions", conclusions(documents, 120))):
            bodies, topics, qrels = made
            if len(topics) == 120:
                index = corpus_index(bodies, scratch, f"{corpus}-{kind}")
                yield measured(f"{corpus}, {kind}", kind, corpus, index, topics, qrels, scratch)


def corpus_index(documents: Documents, scratch: Path, name: str) -> kernelsearch.Index:
    """The index of made documents, built where it is missing."""
    source = scratch / f"{name}.jsonl"
    if not source.exists():
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text("".join(json.dumps(document) + "\n" for document in documents), encoding="utf-8")
    return open_index(scratch / "indexes" / name, source)


def measured(
    name: str, kind: str, corpus: str, index: kernelsearch.Index, topics: Topics, qrels: Judgements, scratch: Path
) -> Condition:
    """The features of a condition's judged topics, at most TOPICS of them, drawn by chance."""
    cache = scratch / "tables" / f"{name.replace(', ', '-').replace(' ', '-')}.npz"
    if not cache.exists():
        qids = judged_topics(topics, qrels)
        if len(qids) > TOPICS:
            qids = [qids[place] for place in sorted(np.random.default_rng(1).permutation(len(qids))[:TOPICS])]
        features = Features(index, RECIPE, sources=("rm",))
        queries = index.lucene.queries([topics[qid] for qid in qids], qids)
        saved: dict[str, NDArray[np.generic]] = {}
        auto, auto_ap = AutoReranker(index), []
        totals: list[int] = []
        for start in range(0, len(queries), 16):
            batch = queries[start : start + 16]
            lists = index.lucene.search(batch, 1000)
            pools = features.pool(batch, lists, DEPTH)
            for query, ranked in zip(batch, auto.apply_batch(batch, lists, Context(hits=1000)), strict=True):
                grades = qrels[query.qid]
                hits = np.array([grades.get(docid, 0) > 0 for docid in index.forward.docids.take(ranked.docs)], dtype=bool)
                auto_ap.append(average_precision(np.flatnonzero(hits), sum(grade > 0 for grade in grades.values())))
            for query, pool, table in zip(batch, pools, features.tables(batch, pools), strict=True):
                number, grades = len(totals), qrels[query.qid]
                docids = index.forward.docids.take(pool.docs)
                saved[f"X{number}"] = zscores(table).astype(np.float32) if len(table) else table.astype(np.float32)
                saved[f"r{number}"] = np.array([grades.get(docid, 0) > 0 for docid in docids], dtype=bool)
                totals.append(sum(grade > 0 for grade in grades.values()))
        cache.parent.mkdir(parents=True, exist_ok=True)
        np.savez(cache, totals=np.array(totals), recipe=np.array(RECIPE), auto=np.array(auto_ap), **saved)  # type: ignore[arg-type]
        print(f"{name}: {len(totals)} topics", flush=True)
    data = np.load(cache)
    if tuple(data["recipe"]) != RECIPE:
        raise SystemExit(f"{cache}: features of another recipe; remove {scratch}")
    count = len(data["totals"])
    tables, relevant = ([data[f"{letter}{number}"] for number in range(count)] for letter in "Xr")
    longest = max(map(len, relevant))
    padded = np.zeros((count, longest, len(RECIPE)), dtype=np.float32)
    present, marked = (np.zeros((count, longest), dtype=bool) for _ in range(2))
    for number, (table, marks) in enumerate(zip(tables, relevant, strict=True)):
        padded[number, : len(marks)], present[number, : len(marks)], marked[number, : len(marks)] = table, True, marks
    return Condition(name, kind, corpus, padded, present, marked, data["totals"], data["auto"])


def worth(chosen: Sequence[Condition], weights: Mapping[str, float]) -> float:
    """What the search maximises: the mean gain on topical conditions, less a price for losses on the others.

    Losses on noisy known items count half: their words of another document make the best matches wrong by construction.
    """
    gains = {condition.name: condition.gain(weights) for condition in chosen}
    topical = [gains[one.name] for one in chosen if one.kind == "topical"]
    others = [one for one in chosen if one.kind != "topical"]
    losses = [min(gains[one.name] - 0.005, 0) * (0.5 if one.kind == "noisy known items" else 1) for one in others]
    return float(np.mean(topical) + 3 * np.mean(losses) + 0.5 * min(0, *topical))


def search(chosen: Sequence[Condition], start: Mapping[str, float]) -> dict[str, float]:
    """Weights by coordinate ascent over GRID."""
    best = {name: start.get(name, 0.0) for name in SEARCHED}
    values, improved = {tuple(best.values()): worth(chosen, best)}, True
    while improved:
        improved = False
        for name in SEARCHED:
            for weight in GRID:
                other = {**best, name: weight}
                if not any(other.values()):
                    continue
                if tuple(other.values()) not in values:
                    values[tuple(other.values())] = worth(chosen, other)
                if values[tuple(other.values())] > values[tuple(best.values())] + 1e-4:
                    best, improved = other, True
    return {name: weight for name, weight in best.items() if weight}


def page(found: Sequence[Condition], left_out: Mapping[str, dict[str, float]], claims: str) -> str:
    """The page docs/reproductions/auto.md; `claims` is its section on learned fusion."""
    rankers: dict[str, Mapping[str, float]] = {
        "RM3": {"rm3": 1.0}, "pert": {"pert": 1.0}, "mslm": {"mslm": 1.0}, "klsa": {"klsa": 1.0}, "auto, before": AUTO_WEIGHTS,
        "auto": READING_WEIGHTS,
    }  # fmt: skip
    rows, hurt = [], dict.fromkeys(rankers, 0)
    means: dict[str, list[float]] = {name: [] for name in (*rankers, "held out")}
    changes: dict[str, list[NDArray[np.float64]]] = {name: [] for name in rankers}
    for condition in found:
        base = condition.base
        cells = [condition.name, str(len(base)), rounded(float(base.mean()))]
        for name, weights in rankers.items():
            change = (condition.auto_ap if name == "auto" else condition.ap(weights)) - base
            changes[name].append(change)
            hurt[name] += int((change < -0.01).sum())
            cells.append(f"{100 * change.mean() / base.mean():+.1f} ({(change < -0.01).sum()}/{(change > 0.01).sum()})")
            if condition.kind == "topical":
                means[name].append(change.mean() / base.mean())
        held_out = condition.gain(left_out[condition.corpus])
        if condition.kind == "topical":
            means["held out"].append(held_out)
        rows.append([*cells, f"{100 * held_out:+.1f}"])
    gains = markdown_table(("", "topics", "BM25", *rankers, "weights chosen without the collection"), rows)
    lost = {name: -float(np.concatenate(parts)[np.concatenate(parts) < 0].sum()) for name, parts in changes.items()}
    risk = markdown_table(
        ("all conditions", *rankers),
        [
            ["queries hurt by more than .01 AP", *(str(hurt[name]) for name in rankers)],
            ["AP lost on hurt queries, summed", *(f"{lost[name]:.1f}" for name in rankers)],
            ["mean gain, topical conditions", *(f"{100 * np.mean(means[name]):+.1f}%" for name in rankers)],
        ],
    )
    single = markdown_table(
        ("alone, gain over BM25", *KINDS),
        [[f"`{name}`", *kind_means(found, {name: 1.0})] for name in ALONE],
    )
    chosen = markdown_table(
        ("left out", "weights chosen on the others"),
        [[name, ", ".join(f"`{feature}` {weight:g}" for feature, weight in left_out[name].items())] for name in CORPORA],
    )
    held = 100 * float(np.mean(means["held out"]))
    changed = {one.name: float(one.auto_ap.mean() / one.base.mean() - 1) for one in found}
    below = [f"{name} ({100 * change:+.1f}%)" for name, change in changed.items() if change < -0.005]
    return TEXT.format(
        gains=gains,
        risk=risk,
        single=single,
        chosen=chosen,
        claims=claims,
        held=f"{held:+.1f}%",
        below=", ".join(below) or "none",
        steps=steps_table(found),
    )


def steps_table(found: Sequence[Condition]) -> str:
    """What the two decisions per query change: gains per kind of topics, and the risk over all conditions."""
    steps: dict[str, Mapping[str, float]] = {
        "feedback by the first stage's scores": AUTO_WEIGHTS,
        "and `posterior`": {**AUTO_WEIGHTS, CERTAINTY: READING_WEIGHTS[CERTAINTY]},
        "feedback by `mslm`'s scores": {name: weight for name, weight in READING_WEIGHTS.items() if name != CERTAINTY},
        "and `posterior`: `auto`": READING_WEIGHTS,
        "the same with `mslm` .5 and title .5, as three of the six searches find": {
            **READING_WEIGHTS,
            MATCH: 0.5,
            "bm25:field=title": 0.5,
        },
    }
    rows = []
    for label, weights in steps.items():
        changes = np.concatenate([one.ap(weights) - one.base for one in found])
        below = sum(one.gain(weights) < -0.005 for one in found)
        risk = [str((changes < -0.01).sum()), f"{-changes[changes < 0].sum():.1f}", str(below)]
        rows.append([label, *kind_means(found, weights), *risk])
    return markdown_table(("", *KINDS, "hurt", "AP lost", "conditions below -.5%"), rows)


def kind_means(found: Sequence[Condition], weights: Mapping[str, float]) -> list[str]:
    """The mean gain per kind of topics."""
    return [f"{100 * np.mean([one.gain(weights) for one in found if one.kind == kind]):+.1f}%" for kind in KINDS]


TEXT = """# `auto`: gains without harm

`python -m tools.reproduce.auto` computes this page. Every condition takes at most 250 topics of one kind on one collection.
The first stage is BM25 (k1 .9, b .4), and 500 candidates per source are ranked. Figures are changes in MAP against BM25 in
percent, with the number of queries that lose and gain more than .01 AP.

- *topical*: the collections' own topics, with many relevant documents each. *claims*: those of scifact, most of them with one
  right abstract.
- *known items*: words of one sentence of a document, which is the only answer. *noisy known items*: the same with five words of
  another document. *titles*: titles against documents without their titles. *conclusions*: the last sentence of an abstract
  against the rest. These are made from the corpora with fixed seeds (`tools/data/made_topics.py`).

{gains}

The last column chooses the weights by the same search without the row's collection; its mean over the topical conditions is
{held}. The searches give the match less weight than `auto` does; a table below shows why it keeps more. Below BM25 by more than
.5% are: {below}. A condition of 80 topics has a standard error of one to two percent.

{risk}

## What makes the difference

Feedback weights its documents by p(d|q) ∝ exp(5 s/s₁), s₁ being the best score (`kernels.relevance.posterior_weights`).
Anserini's RM3 weights them by their scores, which differ little among the first ten. With the posterior, a query that one
document answers far better than the others is expanded from that document alone; the sharpness 5 and the 20 documents are the
same for all queries and features.

Two further decisions are made per query. The scores s are those of `mslm` for the first stage's best 50 documents, on the
first stage's scale: in the right document of a noisy query, its words are close together. And the first stage's own posterior,
with sharpness 10, is a feature (`posterior`), which protects a document that BM25 puts far above the others. In the table of
all conditions, "auto, before" is the sum without both. (All rows here are sums over the same 500 candidates per source; `auto`
itself ranks the candidates of the first stage's 1,000 documents.)

The structure of the sum (`mslm`'s order for feedback, 50 documents, sharpness 10, `posterior` at .5) was chosen among about 60
variants measured on all conditions of this page. Leaving a collection out covers the weights alone, so the gains here are
somewhat above what to expect on a new collection.

{steps}

Each feature alone; `read:mslm/rm` is `rm` by `mslm`'s scores:

{single}

`rm:sharpness=0` weights all 20 documents alike. A relative sharpness did better than an absolute temperature exp(s/t): long
queries have larger scores, and no t served both two-word and fifty-word queries.

## Weights found when a collection is left out

{chosen}

{claims}
## Tried and left out

- Predicting per query whether feedback will help, from score gaps, the deviation of scores, the coverage of the query's terms,
  the cohesion of the best documents, query length, and the overlap between lists: within a kind of query no predictor
  correlated with the change in AP by more than .2 (Spearman), and no threshold on one generalised to a collection that was
  left out. The posterior uses the same evidence (how far the best score is above the others) without a threshold.
- Scaling all feedback weights together by a factor between 0 and 2, as a confidence per query would: the best factor differs
  little between kinds of queries (noisy known items apart, which want a quarter or less); factors below 1 cost topical gains.
- Feedback by the mean of the first stage's and `mslm`'s scores: mostly between the two.
- Less weight for the title: its z-scores are the largest of all features, and known items with noise gain without it, but the
  topical conditions lose more.
- Leaving a document's own share out of its cosine to the best documents, as `top:docs=5` does: it loses two thirds of MAP on
  known items.
- The cosine between rows of U or of U Σ in the latent space: less than U Σ^½ on all but one collection.
- Ten and fifty feedback documents instead of 20: within a percent.
"""


def main() -> None:
    """Computes the conditions, searches weights with each collection left out, and writes the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "reproduce-auto", help="folder of indexes and features")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "reproductions" / "auto.md", help="the page to write")
    arguments = parser.parse_args()
    found = list(conditions(arguments.collections, arguments.scratch))
    # Test topics are measured only; the search sees training and development topics.
    searched = [one for one in found if one.name not in ("nfcorpus", "scifact")]
    left_out = {}
    for corpus in CORPORA:
        left_out[corpus] = search([one for one in searched if one.corpus != corpus], READING_WEIGHTS)
        print(f"without {corpus}: {left_out[corpus]}", flush=True)
    claims = claims_section(arguments.collections, arguments.scratch)
    arguments.output.write_text(page(found, left_out, claims), encoding="utf-8")
    print(f"{arguments.output}: written")


if __name__ == "__main__":
    main()
