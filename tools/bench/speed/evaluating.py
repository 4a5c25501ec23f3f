"""Evaluation of a run of a million lines, beside ranx and pytrec_eval."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kernelsearch.evaluation.measures import evaluate, parse_measures
from kernelsearch.trec import read_qrels, read_run
from tools.bench.speed.collection import Collection
from tools.bench.speed.measuring import Bench, cpu_time

TOPICS, DEPTH, JUDGED = 1000, 1000, 50
MEASURES = ("AP", "nDCG@10", "P@10", "R@1000")


def run(bench: Bench, collections: list[Collection]) -> None:
    """Measures into `bench`; reading the files is part of the time. `collections` are not used: the run is made here."""
    folder = bench.folder / "evaluation"
    folder.mkdir()
    write_files(folder)

    def ours() -> object:
        return evaluate(read_qrels(folder / "qrels.txt"), read_run(folder / "run.txt"), parse_measures(MEASURES))

    lines = TOPICS * DEPTH
    for name, peer in (("pytrec_eval", "trec_eval (pytrec_eval)"), ("ranx", "ranx")):
        theirs = bench.libraries.task(name, folder)
        bench.compare(f"evaluation of {lines:,} lines, 4 measures", peer, lines, cpu_time(ours), theirs, warm_up=1)


def write_files(folder: Path) -> None:
    """Writes run.txt, a random run, and qrels.txt, judgements of some of its documents, to `folder`."""
    rng = np.random.default_rng(0)
    with (folder / "run.txt").open("w") as run_file, (folder / "qrels.txt").open("w") as qrels:
        for topic in range(TOPICS):
            docs = rng.permutation(100_000)[:DEPTH]
            scores = np.sort(rng.random(DEPTH) * 20)[::-1]
            run_file.writelines(
                f"{topic} Q0 d{doc} {rank} {score:.6f} bench\n"
                for rank, (doc, score) in enumerate(zip(docs, scores, strict=True), 1)
            )
            judged = rng.choice(docs, JUDGED, replace=False)
            qrels.writelines(f"{topic} 0 d{doc} {int(rng.integers(0, 3))}\n" for doc in judged)
