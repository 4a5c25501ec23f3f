"""Weights of `auto` with vectors that were chosen on other collections; known items, and queries whose words are weak.

    python -m tools.reproduce.vectors_weights [--collections FOLDER] [--scratch FOLDER] [--encoder MODEL]

Writes its tables into docs/reproductions/vectors.md. The features of `auto` are computed once per collection and kept in the
scratch folder, which it shares with `python -m tools.reproduce.vectors`. MODEL is a folder with the ONNX model of the vectors
(tools/data/export_minilm.py); with it, queries for known items are encoded and measured, too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
from numpy.typing import NDArray

import kernelsearch
from kernelsearch.core.types import Candidates
from kernelsearch.encoders import open_encoder
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.rerankers.auto import reranker as auto_reranker
from kernelsearch.rerankers.auto.reranker import MATCHED, AutoReranker
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.fusion.features import Features
from kernelsearch.rerankers.fusion.recipes import CERTAINTY, MATCH, PLAIN
from kernelsearch.vectors.truncation import reliability
from tools import ROOT
from tools.data.datasets import Judgements, Topics, add_collections_option, judged_topics
from tools.data.made_topics import known_items, read_corpus, without_words
from tools.reproduce.pages import markdown_table, replace_between, rounded
from tools.reproduce.vectors import DEPTH, MEASURED, NAME, PAGE, Collection, fuse, open_collection

BEGIN, END = "<!-- begin weights -->", "<!-- end weights -->"
#: The weight of the match, and weights to choose among: of the vectors, of each feedback feature, and mslm's part of the match.
WORDS = 1.5
DENSE, FEEDBACK, MSLM = (2.0, 3.0, 4.0), (0.3, 0.6, 1.0, 1.5), (0.75, 1.5)
#: Documents per query whose mslm is computed, the best by the fixed weights: weights that differ rank others among the MATCHED.
CANDIDATES = 2 * MATCHED
#: Known items per collection, and topics of which words see half.
KNOWN, WEAK = 80, 80

#: Weights of the vectors, of each feedback feature, and of mslm.
Setting = tuple[float, float, float]


@dataclass(frozen=True)
class Table:
    """The pool of a query: its documents (`docs`), their z-scored `features`, and mslm's score (`match`).

    The features have the first stage's score in the place of mslm's; `match` is NaN where it was not computed.
    """

    docs: NDArray[np.int32]
    features: NDArray[np.float64]
    match: NDArray[np.float64]


def auto_tables(collection: Collection) -> tuple[tuple[str, ...], list[Table]]:
    """The features of `auto` by name, and the tables of the queries of `collection`."""
    auto, context = AutoReranker(collection.index, vectors=NAME), Context(hits=DEPTH)
    features = Features(collection.index, (MATCH,), model=context.model, threads=context.threads)
    tables = []
    for start in range(0, len(collection.queries), 16):
        queries, listed = collection.queries[start : start + 16], collection.lists[start : start + 16]
        pools = [auto.inputs.table(*pair, context) for pair in zip(queries, listed, strict=True)]
        chosen = [np.argsort(-auto.learner.predict(table), kind="stable")[:CANDIDATES] for _, table in pools]
        lists = [Candidates(pool.docs[best], pool.scores[best]) for (pool, _), best in zip(pools, chosen, strict=True)]
        for (pool, table), best, match in zip(pools, chosen, features.tables(queries, lists), strict=True):
            values = np.full(pool.depth, np.nan)
            values[best] = match[:, 0]
            tables.append(Table(pool.docs, table, values))
    return auto.recipe, tables


def ranked(collection: Collection, recipe: tuple[str, ...], table: Table, setting: Setting) -> Candidates:
    """The list of a query of `collection` by weights, as `auto` ranks: the best documents with mslm, then the others.

    `table` is the query's, with the features of `recipe`; `setting` has the weights.
    """
    dense, feedback, mslm = setting
    forward = collection.index.forward
    dense *= reliability(collection.index.vectors(NAME).documents, forward.lengths, forward.live)
    fixed = {MATCH: mslm, PLAIN: WORDS - mslm, f"dense:{NAME}": dense, f"hybrid:{NAME}/{CERTAINTY}": 1.0}
    weights = np.array([fixed.get(name, feedback) for name in recipe])
    ties = collection.index.forward.docid_rank[table.docs]
    scores = table.features @ weights
    best = np.lexsort((ties, -scores))[:MATCHED]
    best = best[~np.isnan(table.match[best])]
    if len(best):
        matched = table.features[best].copy()
        matched[:, recipe.index(MATCH)] = table.match[best]
        final = zscores(matched) @ weights
        scores[best] = final - final.min() + scores.max() + 1
    order = np.lexsort((ties, -scores))[:DEPTH]
    return Candidates(table.docs[order], scores[order])


def hybrids(collection: Collection) -> dict[str, float]:
    """Mean average precision of BM25, of the vectors and of both plain hybrids on `collection`."""
    dense = collection.run({"dense": {"retrieve": DEPTH}})
    pairs = list(zip(collection.lists, dense, strict=True))
    return {
        "BM25": collection.mean(collection.lists),
        "MiniLM": collection.mean(dense),
        "RRF": collection.mean([fuse(collection.index, *pair, "rrf") for pair in pairs]),
        "z-scores": collection.mean([fuse(collection.index, *pair, "z") for pair in pairs]),
    }


def measure(name: str, collections: Path, scratch: Path) -> dict[str, float]:
    """Mean average precision of the plain hybrids and of every setting on the collection `name`."""
    collection = open_collection(MEASURED[name], collections, scratch)
    recipe, tables = auto_tables(collection)
    out = hybrids(collection)
    by_words = words_alone(collection)
    for setting in product(DENSE, FEEDBACK, MSLM):
        lists = [by_words.get(place) or ranked(collection, recipe, table, setting) for place, table in enumerate(tables)]
        out[json.dumps(setting)] = collection.mean(lists)
    return out


def words_alone(collection: Collection) -> dict[int, Candidates]:
    """The lists of those queries of `collection` that `auto` ranks by words alone although they have vectors, {place: list}."""
    decided = AutoReranker(collection.index, vectors=NAME).ranked_by_words(collection.queries, collection.lists)
    places = np.flatnonzero(decided).tolist()
    words, context = AutoReranker(collection.index, vectors="none"), Context(hits=DEPTH)
    queries = [collection.queries[place] for place in places]
    lists = [collection.lists[place] for place in places]
    return dict(zip(places, words.apply_batch(queries, lists, context), strict=True))


def smallest_lead(setting: str, others: Mapping[str, Mapping[str, float]]) -> float:
    """The smallest ratio of a `setting` to the better plain hybrid over collections; `others` has figures by collection."""
    return min(figures[setting] / max(figures["RRF"], figures["z-scores"]) for figures in others.values())


def encoded(topics: Topics, model: str, file: Path) -> Path:
    """The `file` with the vectors of `topics`, made by the encoder in the folder `model` where it is missing."""
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, ids=np.array(list(topics)), vectors=open_encoder(model).queries(list(topics.values())))
    return file


def made_collection(name: str, topics: Topics, qrels: Judgements, file: Path, collections: Path, scratch: Path) -> Collection:
    """The collection `name` with other `topics` and judgements `qrels`; the vectors of the topics are in `file`."""
    dataset = MEASURED[name]
    open_collection(dataset, collections, scratch)  # imports the vectors
    index = kernelsearch.open(scratch / "indexes" / dataset.folder, vectors={"name": NAME, "queries": str(file)})
    qids = judged_topics(topics, qrels)
    queries = index.lucene.queries([topics[qid] for qid in qids], qids)
    rows = JudgedRows(index.forward, qrels, qids)
    return Collection(index, queries, rows, index.lucene.search(queries, DEPTH), qrels)


def with_auto(collection: Collection) -> dict[str, float]:
    """Mean average precision on `collection` of the plain hybrids and of `auto`: by words, with vectors, and undecided.

    Undecided is `auto` with vectors without its decision to rank some queries by words alone.
    """
    words, both = (collection.mean(collection.run({"auto": {"vectors": vectors}})) for vectors in ("none", NAME))
    with mock.patch.object(auto_reranker, "words_decide", return_value=None):
        undecided = collection.mean(collection.run({"auto": {"vectors": NAME}}))
    return {
        **hybrids(collection),
        "`auto`, words alone": words,
        "`auto` with vectors": both,
        "the same without its decision for words": undecided,
    }


def measure_known(name: str, collections: Path, scratch: Path, model: str) -> dict[str, float]:
    """`with_auto` for queries of words of one sentence, each for the document of `name` that the sentence is from.

    `model` is the folder of the encoder.
    """
    dataset = MEASURED[name]
    topics, qrels = known_items(read_corpus(collections / dataset.folder / dataset.corpus), KNOWN)
    file = encoded(topics, model, scratch / "known" / f"{name}.npz")
    return with_auto(made_collection(name, topics, qrels, file, collections, scratch))


def measure_weak(name: str, collections: Path, scratch: Path) -> dict[str, float]:
    """`with_auto` for at most WEAK topics of `name`, of which words see half and vectors the whole.

    Words are the weaker side there.
    """
    dataset = MEASURED[name]
    topics, qrels = dataset.read(collections)
    qids = judged_topics(topics, qrels)
    drawn = np.random.default_rng(1).permutation(len(qids))[:WEAK]
    topics = without_words({qids[place]: topics[qids[place]] for place in sorted(drawn.tolist())})
    file = collections / dataset.folder / "minilm" / "topics.npz"
    return with_auto(made_collection(name, topics, qrels, file, collections, scratch))


def page_text(measured: Mapping[str, Mapping[str, float]], made: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """The tables: of the weights, and per kind of made topics the figures by collection.

    `measured` has figures by collection and setting, `made` figures by kind, collection and label.
    """
    settings = [json.dumps(setting) for setting in product(DENSE, FEEDBACK, MSLM)]
    chosen = {}
    for name in measured:
        others = {other: figures for other, figures in measured.items() if other != name}
        chosen[name] = max(settings, key=lambda setting: smallest_lead(setting, others))
    rows = [[label, *(rounded(figures[label]) for figures in measured.values())] for label in ("RRF", "z-scores")]
    rows.append(["`auto`, weights chosen on the others", *(rounded(measured[name][chosen[name]]) for name in measured)])
    for place, label in enumerate(("weight of the vectors", "of each feedback", "of mslm")):
        rows.append([label, *(f"{json.loads(chosen[name])[place]:g}" for name in measured)])
    text = f"\n{markdown_table(['AP', *measured], rows)}\n"
    for kind, by_collection in made.items():
        labels = list(next(iter(by_collection.values())))
        rows = [[label, *(rounded(figures[label]) for figures in by_collection.values())] for label in labels]
        text += f"\n{kind}:\n\n{markdown_table(['AP', *by_collection], rows)}\n"
    return text


def main() -> None:
    """Measures what the scratch folder lacks and writes the page's tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, default=ROOT / "runs" / "vectors", help="folder of what is kept (%(default)s)")
    parser.add_argument("--encoder", help="folder with the ONNX model of the vectors, to measure known items")
    arguments = parser.parse_args()
    folder = arguments.scratch / "weights"
    folder.mkdir(parents=True, exist_ok=True)
    places = (arguments.collections, arguments.scratch)

    def cached(file: str, figures: Callable[[], dict[str, float]]) -> dict[str, float]:
        path = folder / file
        if not path.exists():
            path.write_text(json.dumps(figures()), encoding="utf-8")
        print(file, flush=True)
        return dict(json.loads(path.read_text(encoding="utf-8")))

    measured = {name: cached(f"{name}.json", partial(measure, name, *places)) for name in MEASURED}
    made = {"Words are weak": {name: cached(f"{name}-weak.json", partial(measure_weak, name, *places)) for name in MEASURED}}
    if arguments.encoder:
        known = {name: partial(measure_known, name, *places, arguments.encoder) for name in MEASURED}
        made["Known items"] = {name: cached(f"{name}-known.json", figures) for name, figures in known.items()}
    page = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(replace_between(page, BEGIN, END, page_text(measured, made)), encoding="utf-8")


if __name__ == "__main__":
    main()
