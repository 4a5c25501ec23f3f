"""The results as one HTML page: sortable tables, plots, the topics that a run helps and hurts most. It needs no other file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from importlib import resources

import numpy as np

from kernelsearch.core.version import __version__
from kernelsearch.evaluation import risk
from kernelsearch.evaluation.comparison import Comparison
from kernelsearch.evaluation.tables import Evaluations, Table, number, tables
from kernelsearch.plots.svg import COLOURS, Plot

#: Topics in each of the lists of most helped and most hurt ones.
SHOWN = 10
#: alphas of the URisk curve
AVERSIONS = np.linspace(0, 5, 26)


def page(
    evaluations: Evaluations,
    comparison: Comparison | None,
    curves: Evaluations,
    *,
    texts: Mapping[str, str] | None = None,
    qrels: str = "",
) -> str:
    """The page, in HTML. `curves` holds each run's interpolated precisions, `texts` the topics' texts where they are known.

    `evaluations` are by label of the run, `comparison` is that with a baseline, if there is one, `qrels` names the judgements.
    """
    names = list(next(iter(evaluations.values())).values)
    colours = {label: COLOURS[place % len(COLOURS)] for place, label in enumerate(evaluations)}
    texts = texts or {}
    parts = [_heading(evaluations, comparison, qrels), *map(_table, tables(evaluations, names, comparison))]
    if comparison is not None and comparison.differences:
        parts += [
            _by_measure(names, lambda name: _difference_plots(evaluations, comparison, name, texts), "Differences by topic"),
            _by_measure(names, lambda name: _risk_plots(evaluations, comparison, name, colours), "Risk and reward"),
        ]
    parts.append(section("Precision and recall", _precision_recall(curves, colours)))
    if comparison is not None and comparison.differences:
        parts.append(
            _by_measure(names, lambda name: _extremes(evaluations, comparison, name, texts), "Most helped and most hurt topics")
        )
    parts.append(_topics(evaluations, names, texts))
    assets = resources.files("kernelsearch.api") / "page"
    style, script = (assets / "report.css").read_text("utf-8"), (assets / "report.js").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>Evaluation of {len(evaluations)} runs</title>\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        # The empty icon keeps browsers from asking a server for one.
        f'<link rel="icon" href="data:,">\n<style>\n{style}</style>\n</head>\n<body>\n'
        + "\n".join(parts)
        + f"\n<script>\n{script}</script>\n</body>\n</html>\n"
    )


def section(title: str, body: str) -> str:
    """A part of the page with a `title`, plain text, and a `body`, HTML."""
    return f"<section><h2>{escape(title)}</h2>\n{body}</section>"


def sortable(header: Sequence[str], rows: Sequence[Sequence[str]], *, texts: int = 1, style: str = "") -> str:
    """A table whose columns sort by a click; the first `texts` columns are words, the others numbers.

    `header` and `rows` have one cell per column, `style` is a CSS class.
    """
    kinds = ["" if place < texts else ' class="number"' for place in range(len(header))]
    head = "".join(
        f'<th scope="col" aria-sort="none"{kind}><button type="button">{escape(name)}</button></th>'
        for name, kind in zip(header, kinds, strict=True)
    )
    body = "".join(
        f"<tr>{''.join(f'<td{kind}>{escape(cell)}</td>' for cell, kind in zip(row, kinds, strict=True))}</tr>\n" for row in rows
    )
    table = f'<table class="sortable {style}"><thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody></table>'
    return f'<div class="scroll">{table}</div>\n'


def _heading(evaluations: Evaluations, comparison: Comparison | None, qrels: str) -> str:
    counts = sorted({len(evaluation.topics) for evaluation in evaluations.values()})
    topics = f"{counts[0]} topics" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} topics"
    against = f" against <b>{escape(comparison.baseline)}</b>" if comparison else ""
    source = f", judged by {escape(qrels)}" if qrels else ""
    notes = [
        f"{label}: {count} {what}"
        for label, evaluation in evaluations.items()
        for count, what in (
            (len(evaluation.missing), "judged topics are not in the run"),
            (len(evaluation.unjudged), "topics of the run are not judged"),
        )
        if count
    ]
    listed = f"<ul class=notes>{''.join(f'<li>{escape(note)}</li>' for note in notes)}</ul>" if notes else ""
    return (
        f"<header><h1>Evaluation of {len(evaluations)} runs</h1><p>{topics}{against}{source}. "
        f"kernelsearch {escape(__version__)}.</p>{listed}</header>"
    )


def _table(table: Table) -> str:
    """One of the tables that the command prints."""
    note = f"<p>{escape(table.note)}</p>" if table.note else ""
    return section(table.title, sortable(table.header, table.rows, texts=table.align.index(">")) + note)


def _by_measure(names: Sequence[str], draw: Callable[[str], str], title: str) -> str:
    """One panel per measure, chosen by a menu where there are several."""
    menu = ""
    if len(names) > 1:
        choices = "".join(f"<option>{escape(name)}</option>" for name in names)
        menu = f'<label class="menu">Measure <select class="chooser">{choices}</select></label>'
    panels = "".join(
        f'<div class="panel" data-measure="{escape(name, quote=True)}"{" hidden" if place else ""}>{draw(name)}</div>'
        for place, name in enumerate(names)
    )
    return section(title, f'<div class="panels">{menu}{panels}</div>')


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption)}</figcaption></figure>"


def _difference_plots(evaluations: Evaluations, comparison: Comparison, name: str, texts: Mapping[str, str]) -> str:
    """For each run its topics from the largest gain to the largest loss, all on one scale."""
    pairs = {label: _pairs(evaluations, comparison, label, name) for label in comparison.topics}
    every = [0.0, *(gain for rows in pairs.values() for *_, gain in rows)]
    figures = []
    for label, rows in pairs.items():
        plot = Plot(
            (0, max(len(rows), 1)),
            (min(every), max(every)),
            "topics, by difference",
            f"{name} − {comparison.baseline}'s",
            xticks=(),
            height=260,
        )
        titles = [f"{qid} {gain:+.4f}  {texts.get(qid, '')}".strip() for qid, _, _, gain in rows]
        plot.bars([gain for _, _, _, gain in rows], titles)
        difference = comparison.of(label, name)
        caption = f"{label}: {difference.wins} topics better, {difference.losses} worse, {difference.ties} the same"
        figures.append(_figure(plot.svg(f"Difference in {name} by topic, {caption}"), caption))
    return f'<div class="figures">{"".join(figures)}</div>'


def _pairs(evaluations: Evaluations, comparison: Comparison, label: str, name: str) -> list[tuple[str, float, float, float]]:
    """(topic, baseline's value, run's value, change), from the largest gain to the largest loss."""
    topics = comparison.topics[label]
    before, after = evaluations[comparison.baseline].array(name, topics), evaluations[label].array(name, topics)
    rows = zip(topics, before.tolist(), after.tolist(), risk.changes(before, after).tolist(), strict=True)
    return sorted(rows, key=lambda row: -row[3])


def _risk_plots(evaluations: Evaluations, comparison: Comparison, name: str, colours: Mapping[str, str]) -> str:
    """Left: gains in the mean against the sum of losses. Right: URisk by the weight of losses."""
    losses, gains, sensitivities = {}, {}, {}
    for label, topics in comparison.topics.items():
        before, after = evaluations[comparison.baseline].array(name, topics), evaluations[label].array(name, topics)
        difference = comparison.of(label, name)
        losses[label], gains[label] = difference.lost, 100 * (difference.relative or 0.0)
        sensitivities[label] = [risk.urisk(before, after, alpha) for alpha in AVERSIONS]
    low, high = min(0.0, *gains.values()), max(0.0, *gains.values())
    pad = 0.08 * (high - low)
    left = Plot(
        (0, max(losses.values()) * 1.08),
        (low - pad, high + pad),
        f"{name} lost in sum by topics that got worse",
        f"gain in mean {name}, %",
    )
    for label in comparison.topics:
        where = f"{label}: {gains[label]:+.1f}% for {losses[label]:.2f} lost"
        left.points([(losses[label], gains[label])], [where], colours[label], label)
    flat = [value for values in sensitivities.values() for value in values]
    right = Plot((0.0, float(AVERSIONS[-1])), (min(0.0, *flat), max(0.0, *flat)), "risk aversion α", f"URisk of {name}")
    for label, values in sensitivities.items():
        right.line(list(zip(AVERSIONS.tolist(), values, strict=True)), label, colours[label])
    return (
        '<div class="figures">'
        + _figure(left.svg(f"Risk and reward by {name}"), "Up is better, left is safer.")
        + _figure(right.svg(f"URisk by {name}"), "Losses count 1 + α times; below zero the baseline is the better choice.")
        + "</div>"
    )


def _precision_recall(curves: Evaluations, colours: Mapping[str, str]) -> str:
    levels = [level / 10 for level in range(11)]
    lines = {
        label: list(zip(levels, (curve.mean(name) for name in curve.values), strict=True)) for label, curve in curves.items()
    }
    top = max(value for line in lines.values() for _, value in line)
    plot = Plot((0, 1), (0, min(1.0, top * 1.05)), "recall", "interpolated precision", xticks=levels)
    for label, line in lines.items():
        plot.line(line, label, colours[label])
    figure = _figure(plot.svg("Precision and recall"), "Mean interpolated precision at eleven levels of recall.")
    return f'<div class="figures">{figure}</div>'


def _extremes(evaluations: Evaluations, comparison: Comparison, name: str, texts: Mapping[str, str]) -> str:
    parts = []
    for label in comparison.topics:
        rows = _pairs(evaluations, comparison, label, name)
        best = [row for row in rows if row[3] > 0][:SHOWN]
        worst = [row for row in reversed(rows) if row[3] < 0][:SHOWN]
        shown = "".join(
            f"<div><h4>{title}</h4>{_topic_rows(topics, comparison.baseline, label, texts) if topics else '<p>None.</p>'}</div>"
            for title, topics in (("Most helped", best), ("Most hurt", worst))
        )
        parts.append(f'<h3>{escape(label)}</h3><div class="pair">{shown}</div>')
    return "".join(parts)


def _topic_rows(rows: Sequence[tuple[str, float, float, float]], baseline: str, label: str, texts: Mapping[str, str]) -> str:
    cells = [(qid, texts.get(qid, ""), number(before), number(after), f"{gain:+.4f}") for qid, before, after, gain in rows]
    return sortable(("topic", "text", baseline, label, "difference"), cells, texts=2, style="wrapped")


def _topics(evaluations: Evaluations, names: Sequence[str], texts: Mapping[str, str]) -> str:
    """The values of all topics, in a part of the page that is closed at first."""
    every = list(dict.fromkeys(qid for evaluation in evaluations.values() for qid in evaluation.topics))
    parts = []
    for name in names:
        rows = [
            (
                qid,
                texts.get(qid, ""),
                *(
                    number(evaluation.values[name][qid]) if qid in evaluation.values[name] else ""
                    for evaluation in evaluations.values()
                ),
            )
            for qid in every
        ]
        table = sortable(("topic", "text", *evaluations), rows, texts=2, style="wrapped")
        parts.append(f"<details><summary>{escape(name)} of {len(every)} topics</summary>{table}</details>\n")
    return section("All topics", "".join(parts))
