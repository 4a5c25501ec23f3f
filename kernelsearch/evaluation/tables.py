"""Results as tables: for the terminal, Markdown, LaTeX (booktabs), CSV (one record a line) and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kernelsearch.core.tables import text_table
from kernelsearch.evaluation.comparison import Comparison, Difference, PairTest
from kernelsearch.evaluation.measures import Evaluation

FORMATS = ("text", "markdown", "latex", "csv", "json")
Evaluations = Mapping[str, Evaluation]


@dataclass(frozen=True)
class Table:
    """A titled table of ready cells; `align` has one of < and > a column."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]
    align: str
    note: str = ""


def tables(
    evaluations: Evaluations,
    measures: Sequence[str],
    comparison: Comparison | None,
    per_query: bool = False,
    pairs: Sequence[PairTest] = (),
) -> list[Table]:
    """What is printed for people, in this order: topics, means, differences, all pairs.

    `evaluations` are by label of the run, `measures` are names; `per_query` asks for the table of topics, `comparison` is that
    with a baseline, if there is one, `pairs` are the tests of all pairs of runs.
    """
    made = [_topics_table(evaluations, measures)] if per_query else []
    made.append(_means_table(evaluations, measures, comparison))
    if comparison is not None and comparison.differences:
        made.append(_differences_table(comparison))
    if pairs:
        made.append(_pairs_table(pairs))
    return made


def _topics_table(evaluations: Evaluations, measures: Sequence[str]) -> Table:
    rows = [
        (label, qid, *(number(evaluation.values[name][qid]) for name in measures))
        for label, evaluation in evaluations.items()
        for qid in evaluation.topics
    ]
    return Table("Values by topic", ("run", "topic", *measures), rows, "<<" + ">" * len(measures))


def _means_table(evaluations: Evaluations, measures: Sequence[str], comparison: Comparison | None) -> Table:
    rows = []
    for label, evaluation in evaluations.items():
        cells = [
            number(evaluation.mean(name))
            + ("*" if comparison and (compared := comparison.get(label, name)) and compared.significant else "")
            for name in measures
        ]
        rows.append((label, str(len(evaluation.topics)), *cells))
    note = ""
    if comparison is not None and comparison.procedure.test != "none":
        # A mark takes the place of a blank, so that the digits stay below each other.
        marked = [any(row[column].endswith("*") for row in rows) for column in range(len(measures) + 2)]
        rows = [
            tuple(cell if not mark or cell.endswith("*") else cell + " " for cell, mark in zip(row, marked, strict=True))
            for row in rows
        ]
        note = "* " + _procedure_in_words(comparison)
    return Table("Means", ("run", "topics", *measures), rows, "<>" + ">" * len(measures), note)


def _procedure_in_words(comparison: Comparison) -> str:
    """The test of `comparison`, its correction and level, as a part of a sentence."""
    how = comparison.procedure
    name = {"t": "paired t test", "wilcoxon": "Wilcoxon's signed-rank test", "randomisation": "randomisation test"}[how.test]
    fixed = {"holm": "Holm's correction", "bonferroni": "Bonferroni's correction", "none": "uncorrected"}[how.correction]
    return f"differs from {comparison.baseline}: {name}, {fixed}, p < {how.level:g}"


_DIFFERENCE_HEADER = (
    "run", "measure", "mean", "difference", "relative", "interval",
    "p", "corrected", "win/tie/loss", "lost", "URisk", "TRisk", "GeoRisk",
)  # fmt: skip


def _difference_cells(difference: Difference) -> tuple[str, ...]:
    return (
        difference.run,
        difference.measure,
        number(difference.mean),
        f"{difference.difference:+.4f}",
        "-" if difference.relative is None else f"{100 * difference.relative:+.1f}%",
        f"[{difference.interval[0]:+.4f}, {difference.interval[1]:+.4f}]",
        _probability(difference.p),
        _probability(difference.p_corrected),
        f"{difference.wins}/{difference.ties}/{difference.losses}",
        f"{difference.lost:.2f}",
        f"{difference.urisk:+.4f}",
        f"{difference.trisk:+.2f}",
        "-" if difference.georisk is None else f"{difference.georisk:.4f}",
    )


def _differences_table(comparison: Comparison) -> Table:
    how = comparison.procedure
    note = (
        f"interval: {100 * how.confidence:g}% by bootstrap over topics; lost: what the losing topics lose in sum; "
        f"risk measures with alpha {how.aversion:g}"
    )
    rows = [_difference_cells(difference) for difference in comparison.differences]
    return Table(f"Against {comparison.baseline}", _DIFFERENCE_HEADER, rows, "<<" + ">" * (len(_DIFFERENCE_HEADER) - 2), note)


def _pairs_table(pairs: Sequence[PairTest]) -> Table:
    rows: list[tuple[str, ...]] = [
        (
            pair.second,
            pair.first,
            pair.measure,
            str(pair.topics),
            f"{pair.difference:+.4f}" + ("*" if pair.significant else " "),
            _probability(pair.p),
            _probability(pair.p_corrected),
        )
        for pair in pairs
    ]
    header = ("run", "compared with", "measure", "topics", "difference", "p", "corrected")
    return Table("All pairs of runs", header, rows, "<<<>>>>", "corrected: over all pairs by the same measure")


def number(value: float) -> str:
    """`value` with four decimals, as trec_eval prints; counts as they are."""
    return str(int(value)) if value == int(value) and abs(value) > 1 else f"{value:.4f}"


def _probability(p: float | None) -> str:
    """A p-value `p` with four decimals, - for None; small ones aren't printed as zero."""
    if p is None:
        return "-"
    return f"{p:.4f}" if p >= 0.00005 else "<0.0001"


def as_text(made: Sequence[Table]) -> str:
    """The tables `made`, for the terminal."""
    parts = []
    for table in made:
        lines = [text_table(table.header, table.rows, align=table.align)]
        parts.append("\n".join([*lines, table.note] if table.note else lines))
    return "\n\n".join(parts) + "\n"


def as_markdown(made: Sequence[Table]) -> str:
    """The tables `made`, for a README."""
    parts = []
    for table in made:
        lines = [
            f"**{table.title}**",
            "",
            _pipes(table.header),
            _pipes("---:" if side == ">" else "---" for side in table.align),
        ]
        lines += [_pipes(cell.strip() for cell in row) for row in table.rows]
        if table.note:
            lines += ["", table.note.replace("* ", r"\* ", 1) if table.note.startswith("* ") else table.note]
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _pipes(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def as_latex(made: Sequence[Table]) -> str:
    """The tables `made`, for a paper; they need the package booktabs."""
    parts = []
    for table in made:
        columns = table.align.replace("<", "l").replace(">", "r")
        lines = [rf"\begin{{tabular}}{{{columns}}}", r"\toprule", _ampersands(table.header), r"\midrule"]
        lines += [_ampersands(cell.strip() for cell in row) for row in table.rows]
        lines += [r"\bottomrule", r"\end{tabular}"]
        if table.note:
            lines.append(f"% {table.note}")
        parts.append("\n".join([f"% {table.title}", *lines]))
    return "\n\n".join(parts) + "\n"


_LATEX = str.maketrans(
    {
        "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
        "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "*": "$^{*}$",
    }
)  # fmt: skip


def _ampersands(cells: Iterable[str]) -> str:
    return " & ".join(cell.translate(_LATEX) for cell in cells) + r" \\"


CSV_HEADER = (
    "run", "topic", "measure", "value", "difference", "low", "high", "p",
    "p_corrected", "wins", "ties", "losses", "urisk", "trisk", "georisk", "lost",
)  # fmt: skip


def as_csv(evaluations: Evaluations, measures: Sequence[str], comparison: Comparison | None, per_query: bool) -> str:
    """One record per run, topic and measure at full precision; the topic `all` holds the means and the comparison.

    The parameters are those of `tables`.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_HEADER)
    for label, evaluation in evaluations.items():
        for name in measures:
            if per_query:
                for qid in evaluation.topics:
                    writer.writerow([label, qid, name, repr(evaluation.values[name][qid])] + [""] * (len(CSV_HEADER) - 4))
            rest: list[object] = [""] * (len(CSV_HEADER) - 4)
            d = comparison.get(label, name) if comparison is not None else None
            if d is not None:
                tests, counts = [d.difference, *d.interval, d.p, d.p_corrected], [d.wins, d.ties, d.losses]
                rest = [*tests, *counts, d.urisk, d.trisk, d.georisk, d.lost]
            writer.writerow([label, "all", name, repr(evaluation.mean(name)), *("" if cell is None else cell for cell in rest)])
    return stream.getvalue()


def as_json(
    evaluations: Evaluations,
    measures: Sequence[str],
    comparison: Comparison | None,
    per_query: bool,
    pairs: Sequence[PairTest] = (),
) -> str:
    """Everything as one JSON object at full precision; the parameters are those of `tables`."""
    runs = {}
    for label, evaluation in evaluations.items():
        runs[label] = {
            "topics": len(evaluation.topics),
            "missing_topics": evaluation.missing,
            "unjudged_topics": evaluation.unjudged,
            "means": {name: evaluation.mean(name) for name in measures},
        }
        if per_query:
            runs[label]["per_topic"] = {name: evaluation.values[name] for name in measures}
    record: dict[str, Any] = {
        "measures": list(measures),
        "runs": runs,
        "comparison": comparison.to_dict() if comparison else None,
    }
    if pairs:
        record["pairs"] = [asdict(pair) for pair in pairs]
    return json.dumps(_finite(record), indent=1, ensure_ascii=False) + "\n"


def _finite(value: object) -> Any:
    """JSON has no infinities (TRisk can be one): they become text."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and abs(value) == float("inf") else value


def render(
    kind: str,
    evaluations: Evaluations,
    measures: Sequence[str],
    comparison: Comparison | None = None,
    per_query: bool = False,
    pairs: Sequence[PairTest] = (),
) -> str:
    """The results in the format `kind`, one of FORMATS; CSV has no place for `pairs`, the tests of all pairs of runs.

    The other parameters are those of `tables`.
    """
    if kind == "csv":
        return as_csv(evaluations, measures, comparison, per_query)
    if kind == "json":
        return as_json(evaluations, measures, comparison, per_query, pairs)
    made = tables(evaluations, measures, comparison, per_query, pairs)
    return {"text": as_text, "markdown": as_markdown, "latex": as_latex}[kind](made)
