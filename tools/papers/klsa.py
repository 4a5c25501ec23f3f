"""Regenerates docs/reproductions/klsa.md and its figure: BM25, LSI and kernel LSA on the real collections.

    python -m tools.papers.klsa [--collections FOLDER] [--scratch FOLDER]
    python -m tools.papers.klsa --lsi     # the table of latent semantic indexing alone

The collections' folder is KERNELSEARCH_COLLECTIONS or ../shared/collections; indexes, bases and results are
kept in the scratch folder; remove it to measure everything again.
"""

from __future__ import annotations

import argparse
import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.types import Candidates
from kernelsearch.evaluation.rows import JudgedRows
from kernelsearch.lucene.models import BM25Model
from kernelsearch.papers.klsa.reranker import KernelLSAPaper
from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.rerankers.base import Context, TrainingData
from kernelsearch.rerankers.klsa.reranker import KernelLSA
from tools import ROOT
from tools.data.datasets import DATASETS, add_collections_option
from tools.reproduce.pages import rounded

PAGE = ROOT / "docs" / "reproductions" / "klsa.md"
FIGURE = PAGE.with_name("klsa-figure1.svg")
MEASURED = ("cran", "cran, all 1837", "cisi", "cacm", "nfcorpus", "npl")
CHOSEN_ON = ("cran", "cisi", "cacm", "npl", "nfcorpus dev", "zerozero")  #: where the defaults were chosen, leaving one out
PAPER = ("cran", "cisi", "cacm")  #: the paper's, of those at hand
PARAMETERS = ((0.9, 0.4), (2.0, 0.75))
DEPTHS = (1, 5, 10, 20, 50)
WEIGHTS = tuple(round(0.1 * step, 1) for step in range(11))
DIMS = (100, 300)


@dataclass
class Setting:
    """One collection under one pair of BM25 parameters: judged queries, first-stage lists and what they score."""

    index: Any
    queries: list
    judged: JudgedRows
    k1: float
    b: float
    scratch: Path
    context: Context = field(init=False)
    lists: list = field(init=False)

    def __post_init__(self) -> None:
        self.context = Context(BM25Model(self.k1, self.b), hits=1000)
        self.lists = self.index.lucene.search(self.queries, 1000, model=self.context.model)

    def precision(self, lists: list) -> np.ndarray:
        """Average precision of the ranked `lists` of the queries, shape (queries,)."""
        return self.judged.average_precision(lists)

    def ranker(self, kernel: str = "bm25", space: tuple[float, float] | None = None, **options: Any) -> KernelLSAPaper:
        """A reranker over a basis of 300 dimensions of a `kernel`, fitted once.

        `space` has k1 and b of the basis, if not the first stage's; `options` are those of the reranker.
        """
        k1, b = space or (self.k1, self.b)
        place = self.scratch / "bases" / f"{self.index.path.name}-{kernel}-{k1:g}-{b:g}"
        if not place.exists():
            text = f"bm25(k1={k1},b={b})" if kernel == "bm25" else kernel
            KernelLSA.method.fit(self.index, TrainingData(output=place), kernel=text, dims=300)
        return KernelLSAPaper(self.index, basis=str(place), **options)

    def sweep(self, z: int, dims: int, weights: tuple[float, ...] = WEIGHTS, **options: Any) -> dict[float, np.ndarray]:
        """Average precision per query for every λ of `weights`; the latent scores don't depend on it.

        `z` and `dims` are those of klsa-paper, `options` are others of `ranker`.
        """
        ranker = self.ranker(z=z, dims=dims, **options)
        latent = [
            ranker.latent(ranker.spread(listed.scores, listed.docs), listed.docs).astype(np.float64) for listed in self.lists
        ]
        return {
            weight: self.precision(
                [
                    ranker.ordered(listed.docs, weight * pulled + (1 - weight) * listed.scores.astype(np.float64))
                    for listed, pulled in zip(self.lists, latent, strict=True)
                ]
            )
            for weight in weights
        }

    def applied(self, **options: Any) -> np.ndarray:
        """Average precision per query of the method as a user runs it, with these `options`."""
        return self.precision(self.ranker(**options).apply_batch(self.queries, self.lists, self.context))

    def lsi(self, kernel: str, cosine: bool = False) -> np.ndarray:
        """Average precision per query of latent semantic indexing: all documents, no threshold or smoothing, 300 dimensions.

        `kernel` is that of the documents; `cosine` compares at unit length.
        """
        options: dict[str, Any] = {"scores": "kernel", "z": 10**9, "lambda": 1.0, "cosine": cosine}
        ranker = self.ranker(kernel, **options)
        docs = self.index.forward.live_docs
        everything = Candidates(docs, np.zeros(len(docs)))
        ranked = [ranker.apply(query, everything, self.context) for query in self.queries]
        return self.precision([Candidates(listed.docs[:1000], listed.scores[:1000]) for listed in ranked])


def prepare(name: str, collections: Path, scratch: Path) -> tuple[Any, list, JudgedRows]:
    """Index, judged queries and judgements of the collection `name` below `collections`; the index is built in `scratch`."""
    dataset = DATASETS[name]
    index = dataset.open_index(collections, scratch / "indexes" / dataset.folder)
    topics, judgements = dataset.read(collections)
    texts = {qid: text for qid, text in topics.items() if qid in judgements}
    queries = index.lucene.queries(list(texts.values()), list(texts))
    return index, queries, JudgedRows(index.forward, judgements, list(texts))


def measure(name: str, collections: Path, scratch: Path) -> dict[str, Any]:
    """Everything the page says about the collection `name`: {(k1, b): results}."""
    index, queries, judged = prepare(name, collections, scratch)
    result: dict[Any, Any] = {"queries": len(queries)}
    for k1, b in PARAMETERS:
        setting = Setting(index, queries, judged, k1, b, scratch)
        grid = {(dims, z, weight): values for dims in DIMS for z in DEPTHS for weight, values in setting.sweep(z, dims).items()}
        base = setting.precision(setting.lists)
        result[k1, b] = {
            "bm25": float(base.mean()),
            "grid": {key: float(values.mean()) for key, values in grid.items()},
            "p": _paired_p(base, grid[300, 1, 0.9]),
            "retrieved": {
                (dims, z): float(setting.applied(z=z, dims=dims, retrieve=len(index.forward)).mean())
                for dims, z in ((300, 1), (100, 10))
            },
        }
    return result


def latent(name: str, collections: Path, scratch: Path) -> dict[str, Any]:
    """The row of `name` in the table of latent semantic indexing: MAP by column, and p of kernel LSA against the best LSI."""
    setting = Setting(*prepare(name, collections, scratch), *PARAMETERS[1], scratch)
    kernel_lsa, strong = setting.applied(), setting.lsi("logentropy", cosine=True)
    return {
        "bm25": float(setting.precision(setting.lists).mean()),
        **{kernel: float(setting.lsi(kernel).mean()) for kernel in ("linear", "vsm")},
        "logentropy": float(strong.mean()),
        "z all": float(setting.applied(z=10**9, **{"lambda": 1.0}).mean()),
        "kernel LSA": float(kernel_lsa.mean()),
        "p": _paired_p(kernel_lsa, strong),
    }


def gains(name: str, collections: Path, scratch: Path) -> dict[Any, float]:
    """MAP over BM25's, less 1, on the collection `name` for settings that might be the default.

    The keys are (k1 and b of the space, dims, z, λ).
    """
    setting = Setting(*prepare(name, collections, scratch), *PARAMETERS[0], scratch)
    base = setting.precision(setting.lists).mean()
    return {
        (space, dims, z, weight): float(values.mean() / base - 1)
        for space in PARAMETERS
        for dims in DIMS
        for z in (1, 3, 5, 10)
        for weight, values in setting.sweep(z, dims, (0.5, 0.7, 0.9), space=space).items()
    }


def measured_once(measure: Callable, name: str, collections: Path, scratch: Path) -> dict[Any, Any]:
    """What `measure` returns for the collection `name`, from `scratch` if it has been measured before."""
    file = scratch / "results" / f"{measure.__name__} {name}.txt"
    if file.exists():
        return ast.literal_eval(file.read_text(encoding="utf-8"))
    result = measure(name, collections, scratch)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(repr(result), encoding="utf-8")
    return result


def _paired_p(first: np.ndarray, second: np.ndarray) -> float:
    """Two-sided p of a paired t-test."""
    from scipy.stats import ttest_rel

    return float(ttest_rel(first, second).pvalue)


def draw(results: dict[str, Any], path: Path) -> None:
    """Draws the paper's Figure 1 to `path`: MAP against λ, one line per z, baselines BM25 (grey) and LSI.

    `results` are those of `measure` and, as "latent", of `latent` by collection.
    """
    import matplotlib

    figure = new_figure(11, 4.2)
    panels = figure.subplots(1, len(PAPER))
    colours = matplotlib.colormaps["viridis"](np.linspace(0, 0.85, len(DEPTHS)))
    for axes, name in zip(panels, PAPER, strict=True):
        result = results[name][2.0, 0.75]
        for z, colour in zip(DEPTHS, colours, strict=True):
            values = [result["grid"][300, z, weight] for weight in WEIGHTS]
            axes.plot(WEIGHTS, values, marker="o", markersize=3, linewidth=1.2, color=colour, label=f"z = {z}")
        low = min(min(result["grid"][300, z, w] for z in DEPTHS for w in WEIGHTS), results[name]["latent"]["linear"])
        axes.axhspan(0, result["bm25"], color="0.9", zorder=0, label="below BM25")
        for kernel, style, text in (
            ("linear", "--", "LSI, tf"),
            ("vsm", ":", "LSI, tf·idf"),
            ("logentropy", "-.", "LSI, log-entropy, cosine"),
        ):
            axes.axhline(results[name]["latent"][kernel], color="black", linestyle=style, linewidth=1, label=text)
        axes.set_ylim(low - 0.01, None)
        axes.set_title(name)
        axes.set_xlabel("λ")
    panels[0].set_ylabel("mean average precision")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=8, columnspacing=1.2)
    save_figure(figure, path)


LSI_TITLE = "## Latent semantic indexing\n"


def read_page(text: str) -> dict[str, Any]:
    """What `draw` needs, from the tables in the `text` of the page."""

    def cells(title: str) -> list[list[str]]:
        lines = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0].splitlines()
        return [[cell.strip(" *") for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]

    latent = {
        row[0]: dict(zip(("linear", "vsm", "logentropy"), map(float, row[2:5]), strict=True)) for row in cells(LSI_TITLE[3:-1])
    }
    results: dict[str, Any] = {}
    for name in PAPER:
        rows = {int(row[0]): [float(cell) for cell in row[1:]] for row in cells(f"{name}: z against λ")}
        grid = {(300, z, weight): value for z, values in rows.items() for weight, value in zip(WEIGHTS, values, strict=True)}
        results[name] = {(2.0, 0.75): {"grid": grid, "bm25": grid[300, 1, 0.0]}, "latent": latent[name]}
    return results


def lsi_table(rows: dict[str, dict[str, float]]) -> str:
    """The section on latent semantic indexing; `rows` are those of `latent` by collection."""
    lines = [
        LSI_TITLE,
        "300 dimensions, k1 2, b .75 where BM25 is concerned. p: paired t-test of kernel LSA against the strong LSI, the one "
        "with log-entropy",
        "weights and the cosine.",
        "",
        "| collection | BM25 | LSI, tf | LSI, tf·idf | LSI, log-entropy, cosine "
        "| BM25 kernel without a threshold (z all, λ 1) | kernel LSA (z 1, λ .9) | p |",
        "| --- " * 8 + "|",
    ]
    for name, result in rows.items():
        cells = [rounded(result[key]) for key in ("bm25", "linear", "vsm", "logentropy", "z all", "kernel LSA")]
        p = f"{result['p']:.3f}" if result["p"] >= 0.001 else "< .001"
        lines.append(f"| {' | '.join([name, *cells, p])} |")
    return "\n".join(lines)


def tables(results: dict[str, Any]) -> str:
    """The page's tables; `results` are those of `draw`."""
    lines = [
        "## The settings of the paper, and others",
        "",
        "MAP of the first 1000 documents. In brackets: the same with `--klsa-paper.retrieve` of all documents. p: paired",
        "t-test of the paper's setting against BM25. The last column is the best of its row on the judgements it is measured",
        "on: it shows the gain that tuning could reach at most, not the gain on new queries.",
        "",
        "| collection | k1, b | BM25 | z 1, λ .9, 300 dims (the paper's) | p | z 10, λ .9, 100 dims | best of the grid |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, result in results.items():
        for k1, b in PARAMETERS:
            measured = result[k1, b]
            best = max((key for key in measured["grid"] if key[2] > 0), key=lambda key: measured["grid"][key])
            cells = [
                f"{name} ({result['queries']})",
                f"{k1:g}, {b:g}",
                rounded(measured["bm25"]),
                f"{rounded(measured['grid'][300, 1, 0.9])} ({rounded(measured['retrieved'][300, 1])})",
                f"{measured['p']:.3f}" if measured["p"] >= 0.001 else "< .001",
                f"{rounded(measured['grid'][100, 10, 0.9])} ({rounded(measured['retrieved'][100, 10])})",
                f"{rounded(measured['grid'][best])} ({best[0]} dims, z {best[1]}, λ {best[2]:g})",
            ]
            lines.append(f"| {' | '.join(cells)} |")
    lines += ["", lsi_table({name: result["latent"] for name, result in results.items()})]
    for name in (name for name in PAPER if name in results):
        measured = results[name][2.0, 0.75]
        lines += ["", f"## {name}: z against λ", "", "300 dimensions, k1 2, b .75. λ = 0 is BM25.", ""]
        lines += ["| z | " + " | ".join(f"{weight:g}" for weight in WEIGHTS) + " |", "| --- " * (len(WEIGHTS) + 1) + "|"]
        for z in DEPTHS:
            row = [measured["grid"][300, z, weight] for weight in WEIGHTS]
            cells = [f"**{rounded(value)}**" if value == max(row) else rounded(value) for value in row]
            lines.append(f"| {z} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def default_tables(result: dict[str, dict[Any, float]]) -> str:
    """How the default was chosen: the best setting on the other collections, and what it gives on the one left out.

    `result` has the gains by collection and setting.
    """
    names = list(result)
    mean = {key: np.mean([result[name][key] for name in names]) for key in result[names[0]]}
    shown = sorted(mean, key=lambda key: -mean[key])[:6]
    shown += [key for key in (((2.0, 0.75), 300, 1, 0.9), ((0.9, 0.4), 300, 1, 0.9)) if key not in shown]
    lines = [
        "",
        "## The default",
        "",
        "MAP gained over BM25 (k1 .9, b .4), in per cent: the best settings by their mean, and the paper's.",
        "",
    ]
    lines += [
        "| k1, b of the space | dims | z | λ | mean | worst | " + " | ".join(names) + " |",
        "| --- " * (6 + len(names)) + "|",
    ]
    for key in shown:
        (k1, b), dims, z, weight = key
        values = [result[name][key] for name in names]
        percent = [f"{100 * gain:+.1f}" for gain in (float(mean[key]), min(values), *values)]
        cells = [f"{k1:g}, {b:g}", dims, z, f"{weight:g}", *percent]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", "Leaving one out: the best setting by mean on the others, and its gain on the one left out.", ""]
    lines += ["| left out | k1, b of the space | dims | z | λ | gain there |", "| --- | --- | --- | --- | --- | --- |"]
    for name in names:
        others = [other for other in names if other != name]
        best = max(mean, key=lambda key: np.mean([result[other][key] for other in others]))
        (k1, b), dims, z, weight = best
        lines.append(f"| {name} | {k1:g}, {b:g} | {dims} | {z} | {weight:g} | {100 * result[name][best]:+.1f} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures what the scratch folder lacks and writes the page, or prints tables of some collections."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_collections_option(parser)
    parser.add_argument(
        "--scratch", type=Path, default=ROOT / "indexes" / "reproductions", help="folder for indexes and results"
    )
    parser.add_argument("--only", default="", help="collections, with ; between; prints the tables instead of writing the page")
    parser.add_argument("--lsi", action="store_true", help="measure and write the table of latent semantic indexing alone")
    parser.add_argument("--figure", action="store_true", help="draw the figure alone, from the tables of the page")
    arguments = parser.parse_args()
    if arguments.figure:
        draw(read_page(PAGE.read_text(encoding="utf-8")), FIGURE)
        return
    names = [name.strip() for name in arguments.only.split(";") if name.strip()] or list(dict.fromkeys((*MEASURED, *CHOSEN_ON)))
    places = (arguments.collections, arguments.scratch)
    rows = {name: measured_once(latent, name, *places) for name in names if name in MEASURED}
    if arguments.lsi:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition(LSI_TITLE)
        after = rest[rest.index("\n## ") :]
        if arguments.only:
            print(lsi_table(rows))
        else:
            PAGE.write_text(f"{before}{lsi_table(rows)}\n{after}", encoding="utf-8")
        return
    results = {name: measured_once(measure, name, *places) | {"latent": row} for name, row in rows.items()}
    chosen = {name: measured_once(gains, name, *places) for name in names if name in CHOSEN_ON}
    if arguments.only:
        print(tables(results), default_tables(chosen) if len(chosen) > 1 else chosen)
        return
    draw(results, FIGURE)
    head, mark, _ = PAGE.read_text(encoding="utf-8").partition("<!-- tables -->\n")
    PAGE.write_text(head + mark + "\n" + tables(results) + default_tables(chosen), encoding="utf-8")


if __name__ == "__main__":
    main()
