"""Regenerates the classification results behind docs/reproductions/mslm.md (the form of the paper's Table 2 and Figure 4).

    python -m tools.papers.mslm_text class_trecq --splits 20 --scratch SCRATCH

Every split draws training and test texts at random. Its accuracies are appended to SCRATCH/mslm-NAME.jsonl, one line per split,
so that a run can be continued; `tools.papers.mslm report` reads them.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import cross_val_score
from sklearn.svm import SVC

from kernelsearch.papers.classify.bem_mkl import BemMKL
from kernelsearch.papers.classify.multiscale_kernel import KERNELS, MultiScaleKernel
from kernelsearch.papers.classify.simple_mkl import SimpleMKL
from tools.data.datasets import add_collections_option

INF = math.inf
#: The kernel pool: bag of words first, then the paper's levels; the last is the control, the word graph without positions.
SPATIAL = (INF, 0.0, 1.0, 2.0, 4.0, INF, INF)
SEMANTIC = (0.0, 0.0, 1.0, 2.0, 4.0, INF, 1.0)
LEVELS = ("BOW", "0", "1", "2", "4", "∞")
C = 10.0
#: Texts without labels, neither in training nor test, from which the word graph is learned too.
UNLABELLED = 3000


def accuracy(train: np.ndarray, test: np.ndarray, y: np.ndarray, truth: np.ndarray) -> float:
    """The share of `truth` that an SVM predicts, fitted to the kernel matrix `train` (training, training) and its labels `y`.

    `test` is the kernel matrix of the test texts, shape (test, training).
    """
    return float((SVC(kernel="precomputed", C=C).fit(train, y).predict(test) == truth).mean())


def split_results(texts: list[str], labels: np.ndarray, sizes: tuple[int, int], columns: int, words: int, seed: int) -> dict:
    """Accuracies of one random split, by kernel and row, and the weights that both MKL methods learned.

    Parameters
    ----------
    texts : all texts
    labels : their classes
    sizes : numbers of training and of test texts
    columns : columns of a text's pyramid
    words : the largest vocabulary
    seed : of the split
    """
    order = np.random.default_rng(seed).permutation(len(texts))
    train, test = order[: sizes[0]], order[sizes[0] : sum(sizes)]
    known, unseen = [texts[i] for i in train], [texts[i] for i in test]
    others = [texts[i] for i in order[sum(sizes) : sum(sizes) + UNLABELLED]]
    y, truth = labels[train], labels[test]
    out: dict = {"seed": seed, "accuracy": {}, "weights": {}, "levels": {}}
    shared: dict[str, Any] = {"columns": columns, "max_words": words, "neighbours": 12, "graph_texts": others}
    # Vocabulary, word graph and codes don't depend on the kernel: they are learned once per split.
    model = MultiScaleKernel(scales=SPATIAL, semantic_scales=SEMANTIC, combine="stack", **shared).fit(known)
    bag = MultiScaleKernel(scales=(INF,), semantic_scales=(0.0,), weighting="idf", **shared).fit(known)
    for kernel in KERNELS:
        model.kernel = bag.kernel = kernel
        inside, outside = model.transform(known), model.transform(unseen)
        rows = {"BOW-TF": accuracy(inside[:, :, 0], outside[:, :, 0], y, truth)}
        rows["BOW-TFIDF"] = accuracy(bag.transform(known), bag.transform(unseen), y, truth)
        rows["word graph, no positions"] = accuracy(inside[:, :, -1], outside[:, :, -1], y, truth)
        inside, outside = inside[:, :, :-1], outside[:, :, :-1]
        levels = [accuracy(inside[:, :, n], outside[:, :, n], y, truth) for n in range(len(LEVELS))]
        svm = SVC(kernel="precomputed", C=C)
        fitted = [cross_val_score(svm, inside[:, :, n], y, cv=3).mean() for n in range(1, len(LEVELS))]
        rows["LaP, best scale by cross-validation"] = levels[1 + int(np.argmax(fitted))]
        rows["LaP, uniform"] = accuracy(inside.mean(axis=2), outside.mean(axis=2), y, truth)
        for name, mkl in (("LaP, SimpleMKL", SimpleMKL(C=C, tol=1e-2, max_iter=15)), ("LaP, BEM-MKL", BemMKL())):
            rows[name] = accuracy(mkl.fit_transform(inside, y), mkl.transform(outside), y, truth)
            out["weights"].setdefault(kernel, {})[name] = mkl.weights_.tolist()
        out["accuracy"][kernel], out["levels"][kernel] = rows, levels
    return out


def main() -> None:
    """Measures the splits that the file lacks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=("class_trecq", "class_r8"), help="the collection of texts")
    parser.add_argument("--splits", type=int, default=20, help="number of random splits")
    parser.add_argument("--train", type=int, default=200, help="training texts per split")
    parser.add_argument("--test", type=int, default=400, help="test texts per split")
    parser.add_argument("--columns", type=int, default=8, help="columns of a text's pyramid")
    parser.add_argument("--words", type=int, default=2000, help="largest vocabulary")
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for the results")
    arguments = parser.parse_args()
    with open(arguments.collections / arguments.name / "data.jsonl", encoding="utf-8") as stream:
        records = [json.loads(line) for line in stream]
    texts, labels = [record["text"] for record in records], np.array([record["label"] for record in records])
    path = arguments.scratch / f"mslm-{arguments.name}.jsonl"
    done = len(path.read_text().splitlines()) if path.exists() else 0
    for seed in range(done, arguments.splits):
        start = time.process_time()
        sizes = (arguments.train, arguments.test)
        result = split_results(texts, labels, sizes, arguments.columns, arguments.words, seed)
        with open(path, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(result) + "\n")
        print(f"{arguments.name} split {seed}: {time.process_time() - start:.0f} s of processor time", flush=True)


if __name__ == "__main__":
    main()
