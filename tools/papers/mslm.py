"""Regenerates the retrieval tables and figures of docs/reproductions/mslm.md.

    python -m tools.papers.mslm score cran --scratch SCRATCH    # per-level similarities, kept in SCRATCH
    python -m tools.papers.mslm report --scratch SCRATCH        # tables and figures from what is there

Collections are read from KERNELSEARCH_COLLECTIONS (default ../shared/collections). Each collection is scored once in three
settings; everything else (draws of training queries, tests, figures) comes from the kept similarities.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from scipy.stats import wilcoxon

from kernelsearch.core.measures import average_precision
from kernelsearch.kernels.pyramid.query_rows import Scale
from kernelsearch.learning.bem import bem_weights, preference_margins, uniform_weights
from kernelsearch.learning.ranking.lists import zscores
from kernelsearch.papers.mslm.matching import Global, local_score
from kernelsearch.papers.mslm.reranker import PaperMultiScaleLM
from tools import ROOT
from tools.data.datasets import DATASETS, add_collections_option, judged_topics

PAGE = ROOT / "docs" / "reproductions" / "mslm.md"
COLLECTIONS = ("cran", "cisi", "cacm", "npl", "nfcorpus")
#: Marks what is judged with cran's second file, which takes all 1,837 pairs as relevant.
ALL = "-all"
DEPTH, DRAWS, TRAINING = 100, 20, 5
INF = math.inf
#: The paper's levels, with the unigram model (whole text, no neighbours) first; ours; one wide level without idf.
PAPER = (Scale(INF, 0), Scale(0, 0), Scale(1, 1), Scale(2, 2), Scale(4, 4), Scale(INF, INF))
OURS = (Scale(INF, 0), Scale(INF, 0.7), Scale(1, 0.7), Scale(2, 0.7), Scale(4, 0.7), Scale(8, 0.7))
CARD = (Scale(INF, 8), Scale(4, 8), Scale(8, 8))
SETTINGS = {
    "paper-kl": (PAPER, {"divergence": "kl", "width": 5, "weighting": "none"}),
    "card-js": (CARD, {"divergence": "js", "width": 0, "weighting": "none"}),
    "ours-js": (OURS, {"divergence": "js", "width": 0, "weighting": "idf"}),
}
MODES = ("global", "mean", "sum", "max", "points")


def names(levels: tuple[Scale, ...]) -> list[str]:
    """Labels of `levels` by their spatial scale."""
    return ["unigram" if s == Scale(INF, 0) else f"{s.spatial:g}".replace("inf", "∞") for s in levels]


def score(name: str, setting: str, collections: Path, scratch: Path) -> None:
    """Keeps every query's first stage, judgements and per-level similarities in SCRATCH/mslm-NAME-SETTING.npz.

    `name` is a collection below `collections`, `setting` a key of SETTINGS.
    """
    index = DATASETS[name].open_index(collections, scratch / "indexes" / name)
    topics, qrels = DATASETS[name].read(collections)
    judgements = {"": qrels}
    if name == "cran":
        judgements[ALL] = DATASETS["cran, all 1837"].read(collections)[1]
    judged = judged_topics(topics, qrels)
    queries = index.lucene.queries([topics[qid] for qid in judged], judged)
    levels, options = SETTINGS[setting]
    spatial, semantic = [s.spatial for s in levels], [s.semantic for s in levels]
    options = {**options, "step": 0}
    reranker = PaperMultiScaleLM(index, mode="max", scales=spatial, semantic=semantic, **options)
    finite = [s for s in levels if s.spatial < INF]
    across = PaperMultiScaleLM(
        index, mode="points", scales=[s.spatial for s in finite], semantic=[s.semantic for s in finite], **options
    )
    across.graph = reranker.graph
    arrays: dict[str, np.ndarray] = {}
    for number, (query, candidates) in enumerate(zip(queries, index.lucene.search(queries, 1000), strict=True)):
        docids = index.forward.docids.take(candidates.docs)
        for which, qrels in judgements.items():
            arrays[f"{number}-grades{which}"] = np.array([qrels[query.qid].get(docid, 0) for docid in docids], dtype=np.int16)
            arrays[f"{number}-relevant{which}"] = np.array(sum(grade > 0 for grade in qrels[query.qid].values()))
        arrays[f"{number}-first"] = candidates.scores
        if candidates.depth and len(reranker.query_words(query)[0]):
            for mode, values in similarities(reranker, across, query, candidates.docs[:DEPTH]).items():
                arrays[f"{number}-{mode}"] = values.astype(np.float32)
    arrays["queries"] = np.array(len(queries))
    np.savez(scratch / f"mslm-{name}-{setting}.npz", **arrays)  # type: ignore[arg-type]  # no key is allow_pickle


def similarities(reranker, across, query, docs) -> dict[str, np.ndarray]:
    """Level similarities by mode, each (documents, levels); the three ways over windows share their columns.

    `reranker` has all levels, `across` those with positions, for interest points; `docs` are the rows of the documents that
    `query` is compared with.
    """
    rows = reranker.rows(query)
    texts = reranker.texts(rows, docs)
    out: dict[str, list[np.ndarray]] = {mode: [] for mode in MODES}
    for level in reranker.scales:
        side, columns, places = reranker.matcher.local_similarity(rows, texts, level)
        for mode in ("mean", "sum", "max"):
            out[mode].append(local_score(columns, side.weights, places, mode))
    matcher = Global(reranker.scales, divergence=reranker.matcher.divergence)
    out["global"] = list(matcher.scores(rows, texts).T)
    rows = across.rows(query)
    candidates = iter(across.matcher.scores(rows, across.texts(rows, docs)).T)
    # Levels of the whole text have no positions: interest points leave them as the windows have them.
    out["points"] = [next(candidates) if s.spatial < INF else out["max"][n] for n, s in enumerate(reranker.scales)]
    return {mode: np.column_stack(columns) for mode, columns in out.items()}


class SavedSimilarities:
    """Similarities of a collection that were kept at `path`; `judgements` is "" or ALL (cran's second file)."""

    def __init__(self, path: Path, judgements: str = "") -> None:
        data = np.load(path)
        self.judgements = judgements
        self.count = int(data["queries"])
        self.data = {key: data[key] for key in data.files}
        self.usable = [q for q in range(self.count) if f"{q}-max" in self.data]

    def measures(self, query: int, values: np.ndarray | None, mix: float = 1.0) -> tuple[float, float, float]:
        """AP, P@5, P@10 of a `query`'s list whose first DEPTH documents are put in the order of `values`, mixed with BM25.

        `mix` is the share of the values; without `values` (None) the first stage's order is measured.
        """
        grades, first = self.data[f"{query}-grades{self.judgements}"], self.data[f"{query}-first"]
        if values is not None:
            blend = mix * zscores(values) + (1 - mix) * zscores(first[:DEPTH])
            order = np.argsort(-blend, kind="stable")
            grades = np.concatenate([grades[:DEPTH][order], grades[DEPTH:]])
        hits = grades > 0
        relevant = int(self.data[f"{query}-relevant{self.judgements}"])
        return average_precision(np.flatnonzero(hits), relevant), float(hits[:5].sum() / 5), float(hits[:10].sum() / 10)

    def all(self, mode: str | None, weights: np.ndarray | None = None, mix: float = 1.0) -> np.ndarray:
        """Measures of all queries, shape (queries, 3); `mode`, `weights` and `mix` are those of `value` and `measures`."""
        return np.array([self.measures(q, self.value(q, mode, weights), mix) for q in range(self.count)])

    def value(self, query: int, mode: str | None, weights: np.ndarray | None) -> np.ndarray | None:
        """The sum of a `query`'s level similarities in a `mode`, z-scored, by `weights` (levels,); uniform ones by default.

        None for the first stage (`mode` None), and for queries without similarities.
        """
        if mode is None or query not in self.usable:
            return None
        levels = self.data[f"{query}-{mode}"]
        return zscores(levels) @ (uniform_weights(levels.shape[1]) if weights is None else weights)

    def learned(self, mode: str, chosen: np.ndarray, standardise: bool = True) -> np.ndarray | None:
        """BEM weights of the levels in a `mode` from the `chosen` training queries; None where none of them can be used.

        `standardise` brings the similarities of a query to z-scores.
        """
        parts = []
        for query in chosen:
            if query in self.usable:
                levels = self.data[f"{query}-{mode}"]
                grades = (self.data[f"{query}-grades{self.judgements}"][:DEPTH] > 0).astype(int)
                parts.append((zscores(levels) if standardise else levels, grades))
        return bem_weights(preference_margins(parts)) if parts else None

    def draws(self, mode: str, mix: float) -> tuple[float, float, np.ndarray, np.ndarray]:
        """Mean AP with learned and with uniform weights over random draws, tested on the other queries.

        `mode` and `mix` are those of `measures`. Then come the weights of every draw, and the p values of learned against
        uniform.
        """
        rng = np.random.default_rng(0)
        uniform = self.all(mode, None, mix)[:, 0]
        candidates, learned_ap, uniform_ap, pairs = [], [], [], []
        for _ in range(DRAWS):
            chosen = rng.choice(self.usable, TRAINING, replace=False)
            weights = self.learned(mode, chosen)
            weights = uniform_weights(self.data[f"{self.usable[0]}-{mode}"].shape[1]) if weights is None else weights
            test = np.setdiff1d(np.arange(self.count), chosen)
            ap = self.all(mode, weights, mix)[:, 0]
            candidates.append(weights)
            learned_ap.append(ap[test].mean())
            uniform_ap.append(uniform[test].mean())
            pairs.append(p_value(ap[test], uniform[test]))
        return float(np.mean(learned_ap)), float(np.mean(uniform_ap)), np.array(candidates), np.array(pairs)


def p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided Wilcoxon signed-rank test of the pairs of `first` and `second`; 1 where nothing differs."""
    return float(wilcoxon(first, second).pvalue) if np.any(first != second) else 1.0


def star(first: np.ndarray, second: np.ndarray) -> str:
    """▲ or ▼ where the mean of `first` differs from that of `second` by the Wilcoxon test at 0.05."""
    if p_value(first, second) >= 0.05:
        return ""
    return "▲" if first.mean() > second.mean() else "▼"


def main() -> None:
    """Scores collections, or writes the tables and figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("score", "report"), help="score collections, or write the tables and figures")
    parser.add_argument("names", nargs="*", default=COLLECTIONS, help="collections to score")
    add_collections_option(parser)
    parser.add_argument("--scratch", type=Path, required=True, help="folder for indexes and similarities")
    parser.add_argument("--setting", choices=SETTINGS, help="score this setting only")
    parser.add_argument("--text-only", action="store_true", help="report classification only")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    if arguments.what == "score":
        for name in arguments.names:
            for setting in [arguments.setting] if arguments.setting else SETTINGS:
                score(name, setting, arguments.collections, arguments.scratch)
                print(f"{name} {setting}: scored")
        return
    from tools.papers.mslm_report import report

    report(arguments.scratch, retrieval=not arguments.text_only)


if __name__ == "__main__":
    main()
