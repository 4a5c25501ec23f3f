"""The outcome as Markdown: tables of all figures with their sources, the headline table, and a plot of the gains."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kernelsearch.core.errors import InputError
from kernelsearch.core.files import write_file
from kernelsearch.core.version import __version__
from kernelsearch.evaluation.comparison import Comparison
from kernelsearch.papers.reproduce.conditions import Condition, Conditions
from kernelsearch.papers.reproduce.running import MEASURES, Outcome
from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.plots.svg import COLOURS

BEGIN, END = "<!-- begin figures -->", "<!-- end figures -->"
PLOT = "baselines-and-methods.svg"


def figures_page(conditions: Conditions, outcomes: Sequence[Outcome]) -> str:
    """The text of docs/reproductions/baselines-and-methods.md, from all `conditions` and the `outcomes` that were measured."""
    parts = [
        "# Baselines and methods on small collections",
        "",
        f"Made by `python -m kernelsearch.reproduce --docs docs/reproductions` (kernelsearch {__version__}); the "
        "commands are at the end. Methods run with their default settings. The defaults were chosen with these "
        "collections in view (the pages of the methods say how), so their rows aren't figures on unseen data. 1000 documents "
        "per query, all judged topics. ▲ and ▼: better and worse than BM25; paired t test over topics, Holm's correction over "
        "the rows of a collection, p < .05. Hurt and helped: topics with lower and higher AP than BM25's, in the first table "
        "over all of its collections; AP lost: what the topics hurt lose in sum.",
        "",
        f"![Gain over {conditions.baseline} in AP]({PLOT})",
        "",
        *headline(conditions, outcomes),
    ]
    for outcome in outcomes:
        parts += ["", *_collection(conditions, outcome)]
    parts += ["", "## Commands", "", "| condition | command | expected figures from |", "| --- | --- | --- |"]
    for condition in _ran(conditions, outcomes):
        commands = "<br>".join(f"`{command}`" for command in condition.commands())
        parts.append(f"| {condition.title} | {commands} | {condition.source} |")
    return "\n".join(parts) + "\n"


def headline(conditions: Conditions, outcomes: Sequence[Outcome]) -> list[str]:
    """The lines of the headline table, one row per condition: AP and nDCG@10 on its collections, and the risk over all of them.

    The last two columns compare AP with the baseline's: the number of topics hurt and helped, and the AP lost by those hurt.
    `conditions` name the collections, `outcomes` are what was measured.
    """
    outcomes = [outcome for outcome in outcomes if outcome.collection.headline]
    names = [outcome.collection.name for outcome in outcomes]
    lines = [
        f"| AP / nDCG@10 | {' | '.join([*names, 'hurt / helped', 'AP lost'])} |",
        "| --- |" + " --- |" * len(outcomes) + " ---: | ---: |",
    ]
    marked = {outcome.collection.name: outcome.comparison(conditions.baseline) for outcome in outcomes}
    for condition in _ran(conditions, outcomes):
        cells = []
        for outcome in outcomes:
            evaluation = outcome.evaluations.get(condition.name)
            comparison = marked[outcome.collection.name]
            shown = []
            for measure in MEASURES if evaluation else ():
                mark = ""
                if comparison is not None and condition.name != conditions.baseline:
                    difference = comparison.of(condition.name, measure)
                    mark = ("▲" if difference.difference > 0 else "▼") if difference.significant else ""
                shown.append(f"{evaluation.mean(measure):.4f}".removeprefix("0") + mark if evaluation else "")
            cells.append(" / ".join(shown) or "-")
        lines.append(f"| {condition.title} | {' | '.join([*cells, *_risk(condition.name, list(marked.values()))])} |")
    return lines


def _risk(name: str, comparisons: Sequence[Comparison | None]) -> list[str]:
    """A condition's topics hurt and helped, and the AP lost by those hurt, summed over the comparisons it is in."""
    differences = [
        difference
        for comparison in comparisons
        if comparison is not None
        for difference in comparison.differences
        if (difference.run, difference.measure) == (name, "AP")
    ]
    if not differences:
        return ["-", "-"]
    hurt, helped = sum(difference.losses for difference in differences), sum(difference.wins for difference in differences)
    return [f"{hurt} / {helped}", f"{sum(difference.lost for difference in differences):.1f}"]


def _collection(conditions: Conditions, outcome: Outcome) -> list[str]:
    """The figures of a collection beside the expected ones, and the risk against the baseline."""
    topics = len(next(iter(outcome.evaluations.values())).topics)
    lines = [
        f"## {outcome.collection.name}",
        "",
        f"{topics} topics.",
        "",
        "| condition | AP | expected | nDCG@10 | expected | hurt / same / helped | AP lost | URisk | TRisk |",
        "| --- |" + " ---: |" * 8,
    ]
    comparison = outcome.comparison(conditions.baseline)
    for condition in conditions.conditions:
        evaluation = outcome.evaluations.get(condition.name)
        if evaluation is None:
            continue
        expected = condition.expected.get(outcome.collection.name, {})
        cells = []
        for measure in MEASURES:
            measured, figure = evaluation.mean(measure), expected.get(measure)
            cells.append(f"{measured:.4f}")
            cells.append("-" if figure is None else f"{figure:.4f} {conditions.judge(figure, measured)}")
        if comparison is not None and condition.name != conditions.baseline:
            d = comparison.of(condition.name, "AP")
            cells += [f"{d.losses} / {d.ties} / {d.wins}", f"{d.lost:.2f}", f"{d.urisk:+.4f}", f"{d.trisk:+.2f}"]
        else:
            cells += ["-"] * 4
        lines.append(f"| {condition.title} | {' | '.join(cells)} |")
    return lines


def _ran(conditions: Conditions, outcomes: Sequence[Outcome]) -> list[Condition]:
    return [
        condition for condition in conditions.conditions if any(condition.name in outcome.evaluations for outcome in outcomes)
    ]


def draw(conditions: Conditions, outcomes: Sequence[Outcome], path: Path) -> None:
    """Draws the gain in AP of every condition over the baseline, in per cent, by collection of the headline table.

    `conditions` name the collections, `outcomes` are what was measured, `path` is the file.
    """
    figure = new_figure(8, 3.6)
    axes = figure.add_subplot()
    outcomes = [outcome for outcome in outcomes if outcome.collection.headline]
    others = [condition for condition in _ran(conditions, outcomes) if condition.name != conditions.baseline]
    average_precisions = [
        {name: evaluation.mean("AP") for name, evaluation in outcome.evaluations.items()} for outcome in outcomes
    ]
    markers = "osD^vP*Xh<>d"
    for number, condition in enumerate(others):
        shift = (number - (len(others) - 1) / 2) * 0.75 / max(len(others), 1)
        points = [
            (place + shift, 100 * (means[condition.name] / means[conditions.baseline] - 1))
            for place, means in enumerate(average_precisions)
            if condition.name in means and conditions.baseline in means
        ]
        axes.plot(
            *zip(*points, strict=True),
            markers[number % len(markers)],
            color=COLOURS[number % len(COLOURS)],
            label=condition.title,
        )
    axes.axhline(0, color="#777777", linewidth=0.8)
    axes.set_xticks(range(len(outcomes)), [outcome.collection.name for outcome in outcomes])
    axes.set_ylabel("gain in AP over BM25, %", fontsize=9)
    axes.tick_params(labelsize=9)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=9)
    save_figure(figure, path)


def write_pages(conditions: Conditions, outcomes: Sequence[Outcome], docs: Path, readme: Path | None) -> list[Path]:
    """Writes the page and its plot, and the headline table between the marks of the README; returns the paths written.

    `conditions` and `outcomes` are those of `figures_page`, `docs` is the folder of the page, `readme` the README, if any.
    """
    page = docs / "baselines-and-methods.md"
    with write_file(page) as stream:
        stream.write(figures_page(conditions, outcomes))
    draw(conditions, outcomes, docs / PLOT)
    written = [page, docs / PLOT]
    if readme is not None:
        text = readme.read_text(encoding="utf-8")
        head, begin, rest = text.partition(BEGIN)
        _, end, tail = rest.partition(END)
        if not begin or not end:
            raise InputError(f"{readme}: has no {BEGIN} ... {END} to put the table between")
        table = "\n".join(headline(conditions, outcomes))
        with write_file(readme) as stream:
            stream.write(f"{head}{BEGIN}\n{table}\n{END}{tail}")
        written.append(readme)
    return written
