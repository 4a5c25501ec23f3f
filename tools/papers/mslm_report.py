"""Tables and figures of docs/reproductions/mslm.md from the results of tools.papers.mslm and mslm_text.

Tables replace the text between `<!-- NAME -->` and `<!-- /NAME -->` on the page; figures are written beside it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from scipy.stats import ttest_rel

from kernelsearch.kernels.semantic.graph import SemanticGraph
from kernelsearch.papers.mslm.text_levels import gaussian_pyramid
from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.plots.pyramid import COLOURS, plot_pyramid
from tools.papers.mslm import ALL, COLLECTIONS, DRAWS, MODES, OURS, PAGE, PAPER, SavedSimilarities, names, star
from tools.papers.mslm_text import LEVELS
from tools.reproduce.pages import markdown_table, replace_between, rounded

LABELS = {"global": "global", "mean": "local, mean", "sum": "local, sum", "max": "local, max", "points": "interest points"}


def report(scratch: Path, retrieval: bool = True) -> None:
    """Rewrites the page's tables and draws its figures from what is in the folder `scratch`.

    Without `retrieval` only those on classification.
    """
    tables: dict[str, str] = {}
    for setting in ("paper-kl", "ours-js", "card-js") if retrieval else ():
        saved = {}
        for name in COLLECTIONS:
            if (path := scratch / f"mslm-{name}-{setting}.npz").exists():
                saved[name] = SavedSimilarities(path)
                if f"0-grades{ALL}" in saved[name].data:
                    saved[f"{name} (all 1,837)"] = SavedSimilarities(path, ALL)
        if not saved:
            continue
        if setting == "paper-kl":
            tables["paper"] = paper_table(saved)
            tables["paper-precision"] = precision_table(saved)
            weights: dict[str, dict[str, np.ndarray]] = {}
            tables["paper-draws"] = draws_table(saved, weights)
            draw_weights(weights, names(PAPER), PAGE.parent / "mslm-weights.svg")
        elif setting == "ours-js":
            tables["ours-alone"], tables["ours-mixed"] = ours_table(saved, 1.0), ours_table(saved, 0.5)
            tables["ours-draws"] = draws_table(saved, {}, mix=0.5)
            tables["held-out"] = held_out_table(saved)
        else:
            tables["card"] = card_table(saved)
    for name in ("class_trecq", "class_r8"):
        path = scratch / f"mslm-{name}.jsonl"
        if path.exists():
            splits = [json.loads(line) for line in path.read_text().splitlines()]
            tables[name] = class_table(splits)
            draw_scales(splits, PAGE.parent / f"mslm-{name}.svg")
    draw_example(PAGE.parent / "mslm-figure2.svg")
    text = PAGE.read_text(encoding="utf-8")
    for name, table in tables.items():
        text = replace_between(text, f"<!-- {name} -->", f"<!-- /{name} -->", table)
    PAGE.write_text(text, encoding="utf-8")


#: The paper's example (Figure 2): its vocabulary, its text without stop words, and the relations that it names.
WORDS = ["new", "york", "time", "gift", "free", "iphone", "customer", "apple", "egg", "city", "service", "coupon"]
TEXT = ["new", "york", "time", "free", "iphone", "gift", "new", "customer", "new", "york"]
RELATED = [("new", "york"), ("york", "city"), ("york", "time"), ("iphone", "apple"), ("customer", "service"),
           ("free", "coupon"), ("gift", "coupon"), ("free", "gift"), ("new", "egg"), ("iphone", "egg")]  # fmt: skip


def draw_example(path: Path) -> None:
    """Draws the paper's Figure 2 to `path`, with a graph made by hand from its description."""
    left, right = (np.array([WORDS.index(pair[side]) for pair in RELATED]) for side in (0, 1))
    graph = SemanticGraph.from_edges(len(WORDS), left, right, np.full(len(RELATED), 0.5))
    levels = gaussian_pyramid([WORDS.index(word) for word in TEXT], graph, width=5)
    plot_pyramid([level.code.toarray() for level in levels], [level.scale for level in levels], WORDS, path, TEXT)


def only(level: int, count: int) -> np.ndarray:
    """Weights of `count` levels that take one `level` alone."""
    return np.eye(count)[level]


def paper_table(saved: dict[str, SavedSimilarities]) -> str:
    """MAP alone, with KL and uniform weights over the paper's levels; marks against the unigram model.

    `saved` has the similarities by the name of the collection.
    """
    base = {name: similarities.all("max", only(0, len(PAPER)))[:, 0] for name, similarities in saved.items()}
    rows = [["BM25 (first stage)", *(rounded(similarities.all(None)[:, 0].mean()) for similarities in saved.values())]]
    rows.append(["unigram LM", *(rounded(values.mean()) for values in base.values())])
    control = {name: similarities.all("max", only(len(PAPER) - 1, len(PAPER)))[:, 0] for name, similarities in saved.items()}
    rows.append(["word graph, no positions (scale ∞)", *(rounded(v.mean()) + star(v, base[n]) for n, v in control.items())])
    for mode in MODES:
        values = {name: similarities.all(mode)[:, 0] for name, similarities in saved.items()}
        rows.append([f"LaP, {LABELS[mode]}", *(rounded(v.mean()) + star(v, base[n]) for n, v in values.items())])
    return markdown_table(["MAP", *saved], rows)


def precision_table(saved: dict[str, SavedSimilarities]) -> str:
    """P@5 / P@10 of the same runs of `saved`."""
    base = {name: similarities.all("max", only(0, len(PAPER))) for name, similarities in saved.items()}

    def cell(values: np.ndarray, other: np.ndarray) -> str:
        return " / ".join(rounded(values[:, k].mean()) + star(values[:, k], other[:, k]) for k in (1, 2))

    rows = [["unigram LM", *(cell(values, values) for values in base.values())]]
    for mode in MODES:
        rows.append(
            [f"LaP, {LABELS[mode]}", *(cell(similarities.all(mode), base[name]) for name, similarities in saved.items())]
        )
    return markdown_table(["P@5 / P@10", *saved], rows)


def ours_table(saved: dict[str, SavedSimilarities], mix: float) -> str:
    """MAP with idf mass and JS, alone (`mix` 1) or mixed with BM25; marks against BM25. `saved` is that of `paper_table`."""
    base = {name: similarities.all(None)[:, 0] for name, similarities in saved.items()}
    count = len(OURS)
    lines: list[tuple[str, str, np.ndarray | None]] = [
        ("unigram (JS)", "max", only(0, count)),
        ("word graph, no positions", "max", only(1, count)),
        *[(f"scale 8, {LABELS[mode]}", mode, only(5, count)) for mode in MODES],
        *[(f"all levels, {LABELS[mode]}", mode, None) for mode in MODES],
    ]
    rows = [["BM25", *(rounded(values.mean()) for values in base.values())]]
    for label, mode, weights in lines:
        values = {name: similarities.all(mode, weights, mix)[:, 0] for name, similarities in saved.items()}
        rows.append([label, *(rounded(v.mean()) + star(v, base[n]) for n, v in values.items())])
    return markdown_table(["MAP", *saved], rows)


def card_table(saved: dict[str, SavedSimilarities]) -> str:
    """MAP of one wide level without idf, mixed with BM25. `saved` is that of `paper_table`."""
    base = {name: similarities.all(None)[:, 0] for name, similarities in saved.items()}
    rows = [["BM25", *(rounded(values.mean()) for values in base.values())]]
    for label, mode, level in (
        ("word graph, no positions", "max", 0),
        ("local, mean", "mean", 2),
        ("local, max", "max", 2),
        ("global", "global", 2),
    ):
        values = {name: similarities.all(mode, only(level, 3), 0.5)[:, 0] for name, similarities in saved.items()}
        rows.append([label, *(rounded(v.mean()) + star(v, base[n]) for n, v in values.items())])
    return markdown_table(["MAP", *saved], rows)


def held_out_table(saved: dict[str, SavedSimilarities]) -> str:
    """The default on the queries of `saved` that settings were chosen on and on the others."""
    rows = []
    for name, similarities in saved.items():
        first, ours = similarities.all(None)[:, 0], similarities.all("max", only(5, len(OURS)), 0.5)[:, 0]
        chosen = np.arange(similarities.count) % 2 == 1 if name != "nfcorpus" else np.zeros(similarities.count, dtype=bool)
        cells = [
            f"{rounded(first[part].mean())} → {rounded(ours[part].mean())}{star(ours[part], first[part])} ({int(part.sum())})"
            if part.any()
            else "none"
            for part in (chosen, ~chosen)
        ]
        rows.append([name, *cells])
    return markdown_table(["BM25 → default (queries)", "chosen on", "held out"], rows)


def draws_table(saved: dict[str, SavedSimilarities], weights: dict[str, dict[str, np.ndarray]], mix: float = 1.0) -> str:
    """Learned against uniform weights over the draws, with a share `mix` of the similarities and the rest BM25's.

    `saved` is that of `paper_table`; fills `weights[collection][mode]` with every draw's weights.
    """
    rows = []
    for mode in MODES:
        cells = []
        for name, similarities in saved.items():
            learned, uniform, weights_of_draws, tests = similarities.draws(mode, mix)
            weights.setdefault(name, {})[mode] = weights_of_draws
            cells.append(f"{rounded(learned)} / {rounded(uniform)} ({int((tests < 0.05).sum())})")
        rows.append([LABELS[mode], *cells])
    return markdown_table([f"learned / uniform (of {DRAWS} draws, significant)", *saved], rows)


def draw_weights(weights: dict[str, dict[str, np.ndarray]], levels: list[str], path: Path) -> None:
    """Draws the form of the paper's Figure 5 to `path`: mean weight of each level and its deviation over the draws.

    `weights` are those of `draws_table`, `levels` are the labels of the levels.
    """
    figure = new_figure(11.5, 2.9)
    panels = figure.subplots(1, len(weights), sharey=True, squeeze=False)[0]
    chosen = ("global", "mean", "max")
    for axis, (name, by_mode) in zip(panels, weights.items(), strict=True):
        for place, mode in enumerate(chosen):
            values = by_mode[mode]
            at = np.arange(len(levels)) + (place - 1) * 0.27
            style = {"width": 0.26, "color": COLOURS[place], "error_kw": {"lw": 0.7}}
            axis.bar(at, values.mean(axis=0), yerr=values.std(axis=0), label=LABELS[mode], **style)
        axis.set_title(name, fontsize=10)
        axis.set_xticks(range(len(levels)), levels, fontsize=8, rotation=45)
        axis.spines[["top", "right"]].set_visible(False)
        axis.set_ylim(0, 1.05)
    panels[0].set_ylabel("BEM weight")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    save_figure(figure, path)


def class_table(splits: list[dict]) -> str:
    """Mean accuracy by row and kernel; ▲▼ against the better of the two bags of words, paired t-test at 0.05.

    `splits` are the results of `tools.papers.mslm_text`, one per split.
    """
    kernels = list(splits[0]["accuracy"])
    rows = []
    for row in splits[0]["accuracy"][kernels[0]]:
        cells = []
        for kernel in kernels:
            values = {name: np.array([s["accuracy"][kernel][name] for s in splits]) for name in (row, "BOW-TF", "BOW-TFIDF")}
            best = max((values["BOW-TF"], values["BOW-TFIDF"]), key=np.mean)
            mark = ""
            if not row.startswith("BOW") and ttest_rel(values[row], best).pvalue < 0.05:
                mark = "▲" if values[row].mean() > best.mean() else "▼"
            cells.append(f"{values[row].mean():.3f}".removeprefix("0") + mark)
        rows.append([row, *cells])
    return markdown_table([f"accuracy, {len(splits)} splits", *({"js": "J-S"}.get(kernel, kernel) for kernel in kernels)], rows)


def draw_scales(splits: list[dict], path: Path) -> None:
    """Draws the form of the paper's Figure 4 to `path`: accuracy by scale, the bag of words and the combinations as lines.

    `splits` are those of `class_table`.
    """
    kernels = list(splits[0]["levels"])
    figure = new_figure(9.5, 2.9)
    panels = figure.subplots(1, len(kernels), sharey=True)
    for axis, kernel in zip(panels, kernels, strict=True):
        levels = np.array([split["levels"][kernel] for split in splits])
        axis.errorbar(
            range(len(LEVELS) - 1), levels[:, 1:].mean(axis=0), yerr=levels[:, 1:].std(axis=0), color=COLOURS[0],
            marker="o", markersize=4, capsize=2, lw=1.2, label="LaP, one scale",
        )  # fmt: skip
        for colour, row in zip(COLOURS[1:], ("BOW-TFIDF", "LaP, SimpleMKL", "LaP, BEM-MKL"), strict=False):
            mean = np.mean([split["accuracy"][kernel][row] for split in splits])
            axis.axhline(mean, color=colour, lw=1.1, ls="--", label=row)
        axis.set_title({"js": "Jensen-Shannon", "rbf": "RBF", "frobenius": "Frobenius"}[kernel], fontsize=10)
        axis.set_xticks(range(len(LEVELS) - 1), LEVELS[1:])
        axis.set_xlabel("scale")
        axis.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("accuracy")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False, fontsize=8)
    save_figure(figure, path)
