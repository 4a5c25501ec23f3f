"""Writes docs/reproductions/fusion.md from what tools.reproduce.fusion measured."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.plots.figures import new_figure, save_figure
from tools.reproduce.fusion_tables import RATIOS

LEARNERS = ("SimListMKL", "SimTripletBoost", "SimTripletSVM", "SimTripletNet")
RIVALS = ("RM3", "Rocchio", "PRCL", "RM3 + PRCL")
FUSED = ("best single", "TiedRRF", "CombSUM", "CombNonzero", "auto", "best, no votes", *LEARNERS, "best")
ROWS = ("BM25", *RIVALS, *FUSED)
#: The collections that averages are taken over: each once.
COUNTED = ("cran", "cacm", "cisi", "npl", "nfcorpus")
SHARES = (10, 25, 50, 100)

HEAD = """# Fusion: the learners of SimListMKL, and everything fused

Bu, Niu, Ma & Long, "Listwise Multi-Kernel Similarity Learning Algorithm for Similar Mobile App Recommendation".
`python -m tools.reproduce.fusion` measures all figures and writes this page.

## What it shows

{aims}
- The paper's advantage for SimListMKL, and its robustness when positives are rare, are not reproduced on these data. In fusion
  the three linear learners do not differ significantly, and SimListMKL's trees are below them on all five collections (below
  SVM and Net with p < .05, uncorrected, on four). On MQ2008 and on similar documents of cran all four are about equal; on
  similar documents of nfcorpus the linear ones are significantly better.
- `auto` needs no training; [its page](auto.md) has gains and losses by kind of query.
- Similar documents: every fusion is above the best single kernel on cran; on nfcorpus only the linear learners are, slightly.
- `votes` gain where topics are related to training topics: compare `best` with `best, no votes`. On topics that nothing related
  was judged for, their contribution is close to 0 ("No worse than its inputs").

## Which claims hold

- **SimListMKL above the triplet learners in P@k and MAP (Table 1, Figure 2): does not hold.** MQ2008: MAP .6664 against .6676
  to .6700, no difference significant. Similar documents of cran: .3837 against .3876 to .3892, not significant. Of nfcorpus:
  .4165 against .4219 to .4234, significantly below. As a fusion of retrieval features it is below all three on all five
  collections.
- **SimListMKL least sensitive to the ratio of relevant documents (Figure 3): does not hold** on MQ2008: its MAP varies by 55%,
  that of the others by 42 to 47%.
- **SimTripletSVM trains fastest, SimListMKL about as fast as SimTripletBoost and much faster than SimTripletNet (Figure 4):
  holds in part.** SimTripletSVM is the fastest on all three data sets. SimListMKL is faster than both others on MQ2008 (46
  features) and slower than both on similar documents.

## How it was measured

- BM25, RM3 and Rocchio are Anserini's with its defaults (k1 .9, b .4; 1,000 documents per topic). Only topics with a relevant
  document are measured. PRCL is Pyserini's classifier reranker with its defaults (logistic regression, tf-idf), on BM25 and on
  RM3; `tools/reproduce/prcl_runs.py` makes its runs in an environment with the full pyserini.
- The candidates are the first 1,000 documents of BM25, RM3, Rocchio and, for learned fusion, of `votes`; the features are those
  of the default recipe, z-scored within the topic.
- Learners: five folds over topics (`kernelsearch.learning.folds.topic_folds`, as in the README's table),
  all settings at their defaults; nfcorpus: learned on its 2,590 training topics, measured on
  the test topics. The training lists are all relevant documents and 200 uniformly drawn others per topic.
- `votes` are the documents judged relevant to similar training topics. Held-out topics of a fold are neither trained on nor
  vote, and a training topic does not vote for itself. Their power, and that they aren't divided by the number of a topic's
  relevant documents, were chosen on nfcorpus's dev topics with votes of the training topics.
- The tables of "Fusion" compare learners, with `votes:power=2`. `best` there chooses among CombSUM, Net, SVM, Boost and
  SimListMKL, as `python -m kernelsearch.ltr --learner best` does, by five inner folds of the training topics: the first
  that is no more than a standard error below the best.
- `best single` is chosen on the test topics themselves and is therefore optimistic.
- Tests: paired t on AP, Holm over the rows of a table. "hurt": topics whose AP falls by more than .001 against BM25.
- Not entirely held out: the defaults of the learners (the net's penalty, xgboost's pairs and leaf weight) and the recipe were
  chosen by cross-validated MAP on cran, cacm, cisi and npl, and on MQ2008's validation and test files. The
  choices changed MAP by about 2%; adding `votes` to the recipe changed it by far more. The standard error that `best` allows
  was introduced after a bad choice on cacm. nfcorpus's test topics were not used.
- `auto` has fixed weights; [its page](auto.md) says how they were chosen.

"""


def probability(p: float) -> str:
    """A `p` value with four decimals."""
    return f"{p:.4f}" if p >= 1e-4 else "<.0001"


def mean(values: dict[str, float]) -> float:
    """The mean of `values` by topic."""
    return float(np.mean(list(values.values())))


def write_page(
    page: Path,
    conditions: str,
    read_result: Callable[[str], Any],
    collections: list[str],
    test: Callable[..., float],
    correct: Callable[..., Any],
) -> None:
    """Writes the page.

    Parameters
    ----------
    page : the file; figures are written beside it
    conditions : the text of the sections on conditions and on few topics
    read_result : returns what was saved under a name, None where it was not measured
    collections : names of the collections with tables
    test : the p value of paired differences
    correct : corrects a list of p values for multiple tests by a named method
    """
    results = {name: result for name in collections if (result := read_result(f"fusion-{name}"))}
    parts = [HEAD.format(aims=aims(results, test, correct)), conditions, fusion_section(results, test, correct)]
    for key, title in (
        ("ltr", "MQ2008 (46 features)"),
        ("similar-cran", "Similar documents of cran"),
        ("similar-nfcorpus", "Similar documents of nfcorpus"),
    ):
        if result := read_result(key):
            parts.append(lists_section(key, title, result, test, correct, page))
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("".join(parts).rstrip() + "\n", encoding="utf-8")


def p_values(
    values: dict[str, Any], against: str, rows: list[str], test: Callable[..., float], correct: Callable[..., Any]
) -> dict[str, float]:
    """p values of each of `rows` against the row `against`, by AP, corrected over the rows (Holm).

    `values` are the measures by row, {row: {measure: {qid: value}}}; `test` and `correct` are those of `write_page`.
    """
    topics = sorted(values["BM25"]["AP"])
    differences = [[values[label]["AP"][qid] - values[against]["AP"][qid] for qid in topics] for label in rows]
    return dict(zip(rows, correct([test(difference) for difference in differences], "holm"), strict=True))


def rival_of(values: dict[str, Any]) -> str:
    """The best of Anserini's and Pyserini's own rows on the measured topics; `values` are those of `p_values`."""
    return max((label for label in RIVALS if label in values), key=lambda label: mean(values[label]["AP"]))


def aims(results: dict[str, Any], test: Callable[..., float], correct: Callable[..., Any]) -> str:
    """How `best` and `auto` compare with BM25 and the best rival, over the collections that count.

    `results` has what was saved of each collection; `test` and `correct` are those of `write_page`.
    """
    counted = {name: results[name]["values"] for name in COUNTED if name in results}
    gains = {
        label: [100 * (mean(values[label]["AP"]) / mean(values["BM25"]["AP"]) - 1) for values in counted.values()]
        for label in ("best", "auto")
    }
    above, clearly = [], []
    for name, values in counted.items():
        rival = rival_of(values)
        if mean(values["best"]["AP"]) > mean(values[rival]["AP"]):
            above.append(name)
            if p_values(values, rival, [label for label in FUSED if label in values], test, correct)["best"] < 0.05:
                clearly.append(name)

    def spread(label: str) -> str:
        return f"{np.mean(gains[label]):.0f}% MAP over BM25 on average ({min(gains[label]):+.0f}% to {max(gains[label]):+.0f}%)"

    lines = [
        f"- Learned fusion (`best`) gains {spread('best')}. It is above the best of {', '.join(RIVALS)} on {len(above)} of",
        f"  {len(counted)} collections ({', '.join(above)}), significantly on {len(clearly)} ({', '.join(clearly)}).",
        f"- `auto` gains {spread('auto')}.",
    ]
    return "\n".join(lines)


def fusion_section(results: dict[str, Any], test: Callable[..., float], correct: Callable[..., Any]) -> str:
    """The tables of all collections, and of the mean gains; the parameters are those of `aims`."""
    out = ["## Fusion\n\n"]
    for name, result in results.items():
        values, notes = result["values"], result["notes"]
        labels = [label for label in ROWS if label in values]
        base, rival = values["BM25"]["AP"], rival_of(values)
        topics = sorted(base)
        later = [label for label in labels if label not in ("BM25", *RIVALS)]
        p = {against: p_values(values, against, later, test, correct) for against in ("BM25", rival)}
        out.append(f"### {name} ({len(topics)} topics)\n\n")
        head = ("", "MAP", "against BM25", "nDCG@10", "P@10", "hurt", "p against BM25", f"p against {rival}")
        out.append(f"| {' | '.join(head)} |\n" + "|---" * len(head) + "|\n")
        for label in labels:
            by_measure = values[label]
            hurt = sum(by_measure["AP"][qid] < base[qid] - 1e-3 for qid in topics)
            shown = f"best single ({notes['best single']})" if label == "best single" else label
            tests = [probability(p[against][label]) if label in later else "" for against in ("BM25", rival)]
            gain = 100 * (mean(by_measure["AP"]) / mean(base) - 1)
            cells = [
                shown,
                f"{mean(by_measure['AP']):.4f}",
                f"{gain:+.1f}%",
                f"{mean(by_measure['nDCG@10']):.4f}",
                f"{mean(by_measure['P@10']):.4f}",
            ]
            out.append(f"| {' | '.join([*cells, str(hurt), *tests])} |\n")
        for label in ("best", "best, no votes"):
            chosen = notes.get(f"chosen {label}", [])
            picks = ", ".join(f"{pick} {chosen.count(pick)}" for pick in dict.fromkeys(chosen))
            out.append(f"\n`{label}` chose, fold by fold: {picks}.\n")
        out.append(f"\nCPU time: features {notes['ms']:.0f} ms per topic; `best` {notes['seconds best']:.0f} s")
        if "training queries" in notes:
            learned = notes["training ms"] * notes["training queries"] / 1000
            out.append(f", features of the {notes['training queries']} training topics {learned:.0f} s")
        out.append(".\n\n")
    counted = [name for name in COUNTED if name in results]
    if counted:
        out.append(f"### Mean gain in MAP over BM25 on {', '.join(counted)}\n\n| | mean | lowest |\n|---|---|---|\n")
        for label in ROWS[1:]:
            if all(label in results[name]["values"] for name in counted):
                gains = [
                    mean(results[name]["values"][label]["AP"]) / mean(results[name]["values"]["BM25"]["AP"]) - 1
                    for name in counted
                ]
                out.append(f"| {label} | {100 * np.mean(gains):+.1f}% | {100 * min(gains):+.1f}% |\n")
    return "".join(out) + "\n"


def lists_section(
    key: str, title: str, result: dict[str, Any], test: Callable[..., float], correct: Callable[..., Any], page: Path
) -> str:
    """The section of one experiment on lists of features, with its figures.

    Parameters
    ----------
    key : the name of the experiment in the names of figures
    title : the heading
    result : what `tools.reproduce.fusion` has saved of it
    test, correct : those of `write_page`
    page : the file of the page
    """
    table, out = result["table"], [f"## {title}\n\n"]
    queries = len(table["SimListMKL"]["AP"])
    out.append(f"Five-fold cross-validation over {queries} lists (the form of the paper's Table 1 and Figure 4). ")
    if "single" in result:
        out.append("Similar are documents judged relevant to the same topic; MAP counts those among the candidates. ")
    out.append("Seconds were taken on a busy machine.\n\n")
    out.append(
        "| | "
        + " | ".join(f"P@{k}" for k in range(1, 11))
        + " | MAP | p against SimListMKL | seconds per fold |\n"
        + "|---" * 14
        + "|\n"
    )
    others = [label for label in table if label != "SimListMKL"]
    listwise = np.array(table["SimListMKL"]["AP"])
    p = dict(zip(others, correct([test(np.array(table[label]["AP"]) - listwise) for label in others], "holm"), strict=True))
    for label, figures in table.items():
        tested = probability(p[label]) if label in p else ""
        at = " | ".join(f"{value:.3f}" for value in figures["P"])
        out.append(f"| {label} | {at} | {np.mean(figures['AP']):.4f} | {tested} | {figures['seconds']:.1f} |\n")
    if "single" in result:
        best = max(result["single"], key=lambda kernel: result["single"][kernel])
        out.append(f"\nBest kernel alone: `{best}`, MAP {result['single'][best]:.4f}.\n")
    figure = page.with_name(f"fusion-{key}.svg")
    draw(result["shares"], table, title, figure)
    out.append(f"\n![MAP by share of training positives, and P@k]({figure.name})\n\n")
    out.append(
        "| MAP with this share of the training positives | "
        + " | ".join(f"{share}%" for share in SHARES)
        + " | varies by |\n"
        + "|---" * 6
        + "|\n"
    )
    for label, values in result["shares"].items():
        spread = 100 * (max(values) - min(values)) / max(values)
        out.append(f"| {label} | {' | '.join(f'{value:.4f}' for value in values)} | {spread:.1f}% |\n")
    if "ratios" in result:
        out.append(ratio_lines(result["ratios"], page.with_name(f"fusion-{key}-ratio.svg")))
    return "".join(out) + "\n"


def ratio_lines(ratios: dict[str, Any], figure: Path) -> str:
    """The paper's Figure 3: MAP on the queries less than a ratio of whose documents are relevant, as a table and a picture.

    `ratios` is what `by_ratio_of_positives` returns, `figure` the file of the picture.
    """
    draw_ratios(ratios["MAP"], figure)
    out = [
        f"\n![MAP by the ratio of relevant documents]({figure.name})\n\n",
        "The paper's Figure 3: five-fold cross-validation on the lists whose ratio of relevant documents is below a bound.\n"
        "In the paper SimListMKL varies by 4.4% and SimTripletNet by 18.6%. Lists with few relevant documents are harder, and\n"
        "there are fewer of them to learn from. OnlineSimListMKL's rate was chosen on a part of these data.\n\n",
        "| MAP, ratio below | "
        + " | ".join(f"{ratio:g}" for ratio in RATIOS)
        + " | varies by |\n"
        + "|---" * (len(RATIOS) + 2)
        + "|\n",
        "| lists | " + " | ".join(map(str, ratios["queries"])) + " | |\n",
    ]
    for label, values in ratios["MAP"].items():
        spread = 100 * (max(values) - min(values)) / max(values)
        out.append(f"| {label} | {' | '.join(f'{value:.4f}' for value in values)} | {spread:.1f}% |\n")
    return "".join(out)


def draw_ratios(values: dict[str, list[float]], path: Path) -> None:
    """Draws one line per learner, MAP over the bound of the ratio, to `path`.

    `values` are MAP by learner, in the order of RATIOS.
    """
    figure = new_figure(6, 3.4)
    axes = figure.add_subplot()
    colours = ("#c8553d", "#4c86a8", "#6a994e", "#8d6a9f", "#b08900", "#5f6b6d", "#d08aa5")
    for (label, line), colour, marker in zip(values.items(), colours, "osD^vPX", strict=True):
        axes.plot(RATIOS, line, marker=marker, markersize=4, color=colour, label=label)
    axes.set(xlabel="ratio of relevant documents below", ylabel="MAP", xticks=RATIOS)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
    save_figure(figure, path)


def draw(shares: dict[str, list[float]], table: dict[str, Any], title: str, path: Path) -> None:
    """Draws to `path`, left: MAP with fewer training positives (`shares`). Right: P@k of `table` (the paper's Figure 2).

    `title` is that of the picture; both dictionaries have one entry per learner.
    """
    figure = new_figure(9, 3.4)
    left, right = figure.subplots(1, 2)
    for (label, values), colour, marker in zip(
        shares.items(), ("#c8553d", "#4c86a8", "#6a994e", "#8d6a9f"), "osD^", strict=True
    ):
        left.plot(SHARES, values, marker=marker, color=colour, label=label)
        right.plot(range(1, 11), table[label]["P"], marker=marker, markersize=4, color=colour, label=label)
    left.set(xlabel="% of training positives kept", ylabel="MAP", xticks=SHARES)
    right.set(xlabel="k", ylabel="P@k", xticks=range(1, 11))
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    right.legend(frameon=False, fontsize=8)
    figure.suptitle(title, fontsize=11)
    save_figure(figure, path)
