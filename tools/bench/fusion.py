"""The processor time that the features and scores of fusion take, feature by feature, Java included.

OMP_NUM_THREADS=1 python -m tools.bench.fusion --index indexes/cran --topics topics.tsv --qrels qrels.txt [--queries 50]

The recipe is the default one and mslm, so that all methods but those on a click log are in it. The training queries of `votes`
are the topics themselves.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import kernelsearch
from kernelsearch.cli.inputs import load_qrels, load_topics
from kernelsearch.core.tables import text_table
from kernelsearch.learning.ranking.fusers import CombSUM
from kernelsearch.rerankers.auto.reranker import AutoReranker
from kernelsearch.rerankers.base import Context
from kernelsearch.rerankers.fusion.features import Features, parse_recipe
from kernelsearch.rerankers.fusion.pool import Pool
from kernelsearch.rerankers.fusion.settings import RECIPE, SOURCES
from kernelsearch.rerankers.fusion.training_queries import TrainingQueries, TrainingVotes


def main() -> None:
    """Prints the CPU time per query of each feature, of the scores, and of `auto`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--index", required=True, help="the index to measure on")
    parser.add_argument("--topics", required=True, help="file of topics")
    parser.add_argument("--qrels", required=True, help="file of judgements")
    parser.add_argument("--queries", type=int, default=50, help="number of queries")
    parser.add_argument("--hits", type=int, default=1000, help="documents per query of the first stage")
    arguments = parser.parse_args()
    index = kernelsearch.open(arguments.index)
    topics = load_topics(arguments.topics)
    everyone = index.lucene.queries(list(topics.values()), list(topics))
    training_votes = TrainingVotes(index, TrainingQueries.of(everyone, load_qrels(arguments.qrels)), leave_out=True)
    queries = everyone[: arguments.queries]
    lists = index.lucene.search(queries, arguments.hits)
    recipe = parse_recipe(f"{RECIPE} mslm")
    features = Features(index, recipe, sources=parse_recipe(SOURCES), training_votes=training_votes)
    features.tables(queries[:4], lists[:4])  # warm: Java's compiler, memory maps
    rows, total = [], 0.0

    def timed(label: str, work: Callable[[], Any]) -> Any:
        nonlocal total
        began = time.process_time()
        out = work()
        spent = 1000 * (time.process_time() - began) / len(queries)
        total += spent
        rows.append((label, f"{spent:.2f}"))
        return out

    candidates = timed("candidates (union of sources)", lambda: features.pool(queries, lists, arguments.hits))
    pools = [Pool(index, query, result) for query, result in zip(queries, candidates, strict=True)]
    timed("reading the postings", lambda: [pool.field("contents") for pool in pools])
    columns = [
        timed(name, partial(feature.values, pools)) for name, feature in zip(features.recipe, features.features, strict=True)
    ]
    tables = [np.column_stack([column[place] for column in columns]) for place in range(len(queries))]
    fuser = CombSUM(normalise="z")
    timed("normalising and scoring", lambda: [fuser.predict(table) for table in tables])
    rows.append(("fusion, all features and scores", f"{total:.2f}"))
    reranker, context = AutoReranker(index), Context(hits=arguments.hits)
    reranker.apply_batch(queries[:4], lists[:4], context)
    began = time.process_time()
    for query, result in zip(queries, lists, strict=True):
        reranker.apply(query, result, context)
    rows.append(("auto, one query at a time", f"{1000 * (time.process_time() - began) / len(queries):.2f}"))
    depth = sum(pool.depth for pool in pools) / len(pools)
    print(text_table((f"{len(queries)} queries, {depth:.0f} candidates each", "CPU ms per query"), rows))


if __name__ == "__main__":
    main()
