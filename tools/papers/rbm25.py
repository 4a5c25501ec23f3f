"""Regenerates the tables and the picture of docs/reproductions/rbm25.md.

    python -m tools.papers.rbm25 --scratch FOLDER [--parts cran nfcorpus zerozero]
    python -m tools.papers.rbm25 --scratch FOLDER --parts cacm cisi     # where defaults are chosen: printed only

Collections come from KERNELSEARCH_COLLECTIONS (default: ../shared/collections beside the checkout). Each part's figures are
kept as JSON in the scratch folder; the page is rewritten from all parts that are there.
"""

from __future__ import annotations

import argparse
import json
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ir_measures
import numpy as np
from ir_measures import AP, nDCG
from scipy import stats

import kernelsearch
from kernelsearch.clicks.importing import import_records
from kernelsearch.clicks.models import PositionBased
from kernelsearch.clicks.records import Impression, Skipped, Tally, normalise_query, read
from kernelsearch.clicks.simulate import Need, simulate
from kernelsearch.core.types import Candidates
from kernelsearch.lucene.models import RM3
from kernelsearch.plots.figures import new_figure, save_figure
from kernelsearch.rerankers import registry
from kernelsearch.rerankers.base import DEFAULT_CONTEXT, CannotAct
from tools import ROOT
from tools.data.altered_topics import variant
from tools.data.datasets import Dataset, Judgements, Topics, add_collections_option, judged_topics, open_index

PAGE = ROOT / "docs" / "reproductions" / "rbm25.md"
MEASURES = [AP, nDCG @ 1, nDCG @ 3, nDCG @ 5]
COLUMNS = ("AP", "nDCG@1", "nDCG@3", "nDCG@5", "residual")
SEED = 5


@dataclass
class Condition:
    """A log and the queries asked on it: (topic, text) pairs, judgements, and what was clicked in the log for each topic."""

    name: str
    database: Path
    tests: list[tuple[str, str]]
    qrels: Judgements
    clicked: dict[str, set[str]]


# The simulated users and their wordings


def clickable_half(index: kernelsearch.Index, topics: dict[str, str], qrels: Judgements) -> Judgements:
    """The half of each topic's relevant documents that BM25 ranks best: the log's users never see the others.

    `topics` and `qrels` are those of `index`; the judgements of the half are returned.
    """
    result = index.lucene.search(index.lucene.queries(list(topics.values())), 1000)
    out = {}
    for qid, ranked in zip(topics, result, strict=True):
        rank = {docid: place for place, docid in enumerate(index.forward.docids.take(ranked.docs))}
        relevant = sorted((d for d, grade in qrels[qid].items() if grade > 0), key=lambda d: (rank.get(d, 10**6), d))
        out[qid] = {docid: qrels[qid][docid] for docid in relevant[: (len(relevant) + 1) // 2]}
    return out


def simulated_log(
    index: kernelsearch.Index,
    path: Path,
    wordings: Sequence[tuple[str, str]],
    clickable: Judgements,
    hidden: dict[str, set[str]],
) -> dict[str, set[str]]:
    """Simulates ten impressions per query on BM25's lists into the click log `path`; returns what was clicked for each topic.

    `wordings` are (topic id, text), `clickable` has the grades that users click by, `hidden` the documents per topic that are
    left out of lists.
    """
    lists = index.lucene.search(index.lucene.queries([text for _, text in wordings]), 40)
    needs = [
        Need(text, tuple(d for d in index.forward.docids.take(result.docs) if d not in hidden.get(qid, ())), clickable[qid])
        for (qid, text), result in zip(wordings, lists, strict=True)
    ]
    everything = index.forward.docids.take(index.forward.live_docs)
    log: list[Impression] = list(simulate(needs, 10 * len(needs), model=PositionBased(), seed=1, others=everything))
    import_records(log, path)
    topic = {normalise_query(text): qid for qid, text in wordings}
    clicked: dict[str, set[str]] = {}
    for record in log:
        clicked.setdefault(topic[record.query], set()).update(
            docid for docid, click in zip(record.docids, record.clicked, strict=True) if click
        )
    return clicked


# The conditions


def judged(folder: Path, prefix: str = "") -> tuple[Topics, Judgements]:
    """Topics of a collection's `folder` that have a relevant document, and the judgements.

    `prefix` is that of the names of both files.
    """
    topics, qrels = Dataset(folder.name, topics=f"{prefix}topics.tsv", qrels=f"{prefix}qrels.txt").read(folder.parent)
    qids = judged_topics(topics, qrels)
    return {qid: topics[qid] for qid in qids}, {qid: qrels[qid] for qid in qids}


def variant_conditions(index: kernelsearch.Index, scratch: Path, topics: dict[str, str], qrels: Judgements) -> list[Condition]:
    """Four wordings and the topic itself are logged. Asked: a logged wording, and a fifth one that isn't.

    `topics` and `qrels` are those of `index`; the log is written to `scratch`.
    """
    rng = np.random.default_rng(SEED)
    clickable = clickable_half(index, topics, qrels)
    hidden = {q: {d for d, g in qrels[q].items() if g > 0} - set(clickable[q]) for q in topics}
    wordings = {qid: [variant(text, rng) for _ in range(5)] for qid, text in topics.items()}
    logged = [*topics.items(), *((qid, text) for qid in topics for text in wordings[qid][:4])]
    database = scratch / "variants.db"
    clicked = simulated_log(index, database, logged, clickable, hidden)
    return [
        Condition("logged variants", database, [(qid, wordings[qid][0]) for qid in topics], qrels, clicked),
        Condition("variants never logged", database, [(qid, wordings[qid][4]) for qid in topics], qrels, clicked),
    ]


def unseen_halves(index: kernelsearch.Index, scratch: Path, topics: dict[str, str], qrels: Judgements) -> list[Condition]:
    """Every second topic is logged with four wordings, the others are asked; then the other way round.

    The parameters are those of `variant_conditions`.
    """
    rng = np.random.default_rng(SEED)
    out = []
    for turn in (0, 1):
        train = {qid: text for place, (qid, text) in enumerate(topics.items()) if place % 2 == turn}
        clickable = {qid: {d: g for d, g in qrels[qid].items() if g > 0} for qid in train}
        logged = [*train.items(), *((qid, variant(text, rng)) for qid, text in train.items() for _ in range(4))]
        database = scratch / f"unseen-{turn}.db"
        simulated_log(index, database, logged, clickable, {})
        out.append(Condition("unseen topics", database, [item for item in topics.items() if item[0] not in train], qrels, {}))
    return out


def folds_of_real_log(scratch: Path, folder: Path, topics: dict[str, str], qrels: Judgements) -> list[Condition]:
    """Five folds by query: a query's clicks, in any locale and with or without accents, are never in the log it is asked on.

    `folder` has the log clicks.tsv, `topics` and `qrels` are asked; the logs of the folds are written to `scratch`.
    """

    def plain(text: str) -> str:
        letters = unicodedata.normalize("NFKD", normalise_query(text))
        return "".join(letter for letter in letters if not unicodedata.combining(letter))

    rows = [row for row in read(folder / "clicks.tsv", Skipped()) if isinstance(row, Tally)]
    texts = sorted({plain(row.query) for row in rows} | {plain(text) for text in topics.values()})
    order = np.random.default_rng(SEED).permutation(len(texts))
    fold = {texts[number]: int(place % 5) for place, number in enumerate(order)}
    out = []
    for number in range(5):
        train = [row for row in rows if fold[plain(row.query)] != number]
        database = scratch / f"fold-{number}.db"
        import_records(train, database)
        tests = [(qid, text) for qid, text in topics.items() if fold[plain(text)] == number]
        out.append(Condition("real clicks, unseen queries", database, tests, qrels, {qid: set() for qid in topics}))
    return out


def known_items(scratch: Path, folder: Path) -> list[Condition]:
    """A log of clicks alone: queries of one or two words of a title, each for that one document; a fifth of them is asked.

    `folder` is the collection's; the log is written to `scratch`.
    """
    rng = np.random.default_rng(5)
    with open(folder / "corpus.jsonl", encoding="utf-8") as stream:
        documents = [json.loads(line) for line in stream]
    titles = [(str(document["id"]), re.findall(r"[A-Za-z]{3,}", document.get("title") or "")) for document in documents]
    titles = [(docid, words) for docid, words in titles if len(words) >= 3]
    asked: dict[str, tuple[str, str]] = {}
    for place in rng.permutation(len(titles))[:250]:
        docid, words = titles[place]
        for _ in range(int(rng.integers(1, 4))):
            text = " ".join(words[n] for n in sorted(rng.choice(len(words), int(rng.integers(1, 3)), replace=False)))
            asked.setdefault(text.lower(), (docid, text))
    held_out = rng.integers(0, 5, len(asked)) == 0
    train = [query for query, out in zip(asked.values(), held_out, strict=True) if not out]
    tests = [query for query, out in zip(asked.values(), held_out, strict=True) if out]
    database = scratch / "known-items.db"
    import_records([Tally(text, docid, int(rng.integers(5, 200)), 0, 1.0) for docid, text in train], database)
    return [Condition("known items", database, tests, {docid: {docid: 1} for docid, _ in tests}, {})]


# The methods


def run_methods(index: kernelsearch.Index, condition: Condition) -> dict[str, dict[str, list[str]]]:
    """Ranked docids of every method on `index` under a `condition`, by the test's number.

    Similar queries and their lists are found once for all methods.
    """
    queries = index.lucene.queries([text for _, text in condition.tests])
    lists = index.lucene.search(queries, 1000)
    runs = {"BM25": lists, "BM25+RM3": index.lucene.search(queries, 1000, feedback=RM3())}
    runs["local context analysis"] = registry.method("pert-paper").make(index, **LOCAL_CONTEXT).apply_batch(queries, lists)
    options = {"clicks": str(condition.database)}
    robust: Any = registry.method("rbm25").make(index, **options)
    similar: Any = robust.similar.find(queries, robust.settings.similar, lists)
    retrieved = robust.retrieve(similar, DEFAULT_CONTEXT)
    for label, name, more in METHODS:
        method: Any = registry.method(name).make(index, **options, **more)
        ranked: list[Candidates] = []
        for query, candidates, near in zip(queries, lists, similar, strict=True):
            try:
                result = method.rank(query, candidates, near, [retrieved[number] for number in near.ids.tolist()])
                ranked.append(method.ordered(*result))
            except CannotAct:
                ranked.append(candidates)
        runs[label] = ranked
    take = index.forward.docids.take
    return {label: {str(n): take(result.docs[:1000]) for n, result in enumerate(ranked)} for label, ranked in runs.items()}


#: Xu & Croft's settings: 100 passages (here documents), 70 words, an added query of twice the weight of the user's.
LOCAL_CONTEXT: dict[str, Any] = {"method": "lca", "docs": 100, "terms": 70, "alpha": 2 / 3}
#: The row that the others are compared with.
ROBUST = "**Robust BM25**"
METHODS: list[tuple[str, str, dict[str, Any]]] = [
    ("query substitution", "substitution", {}),
    ("pairwise kernel", "pairwise", {}),
    ("click prior", "clickprior", {}),
    ("Robust BM25, printed", "rbm25-paper", {"form": "paper"}),
    ("Robust BM25, prior", "rbm25-paper", {"form": "prior"}),
    (ROBUST, "rbm25", {}),
]


def evaluate(conditions: Sequence[Condition], index: kernelsearch.Index) -> dict[str, dict[str, Any]]:
    """Figures of each method over all tests of these `conditions` (folds of one experiment) on `index`."""
    values: dict[str, dict[str, list[float]]] = {}
    for condition in conditions:
        qrels = {str(n): condition.qrels[qid] for n, (qid, _) in enumerate(condition.tests)}
        unseen = {
            number: {d: g for d, g in grades.items() if d not in condition.clicked.get(qid, ())}
            for (number, grades), (qid, _) in zip(qrels.items(), condition.tests, strict=True)
        }
        unseen = {number: grades for number, grades in unseen.items() if any(g > 0 for g in grades.values())}
        clicked = {str(n): condition.clicked.get(qid, set()) for n, (qid, _) in enumerate(condition.tests)}
        for label, ranked in run_methods(index, condition).items():
            run = {n: {d: -float(rank) for rank, d in enumerate(docs)} for n, docs in ranked.items()}
            measured = values.setdefault(label, {})
            for measure, by_query in per_query(qrels, run, MEASURES).items():
                measured.setdefault(measure, []).extend(by_query)
            residual = {n: {d: s for d, s in run[n].items() if d not in clicked[n]} for n in unseen}
            measured.setdefault("residual", []).extend(per_query(unseen, residual, [AP])["AP"])
    return {label: summary(measured, values["BM25"], values[ROBUST]) for label, measured in values.items()}


def per_query(qrels: Judgements, run: dict[str, dict[str, float]], measures: list[Any]) -> dict[str, list[float]]:
    """Values by measure of a `run`, in the order of `qrels`; 0 for queries without documents. `measures` are ir_measures'."""
    result: dict[str, dict[str, float]] = {str(measure): {} for measure in measures}
    for metric in ir_measures.iter_calc(measures, qrels, run):
        result[str(metric.measure)][metric.query_id] = metric.value
    return {name: [by_query.get(number, 0.0) for number in qrels] for name, by_query in result.items()}


def summary(measured: dict[str, list[float]], base: dict[str, list[float]], robust: dict[str, list[float]]) -> dict[str, Any]:
    """Means, queries better and worse than BM25 by more than .001 AP, and the paired t-tests against BM25 and Robust BM25.

    `measured`, `base` and `robust` are values per query by measure: of the method, of BM25 and of Robust BM25.
    """
    change = np.array(measured["AP"]) - np.array(base["AP"])
    return {
        **{name: float(np.mean(numbers)) if numbers else None for name, numbers in measured.items()},
        "better": int((change > 0.001).sum()),
        "worse": int((change < -0.001).sum()),
        "queries": len(change),
        "p": p_value(measured["AP"], base["AP"]),
        "p of Robust BM25": p_value(robust["AP"], measured["AP"]),
        "change": np.sort(change)[::-1].round(4).tolist(),
    }


def p_value(values: list[float], others: list[float]) -> float | None:
    """p of the paired t-test of `values` against `others`; None where all pairs are equal."""
    return float(stats.ttest_rel(values, others).pvalue) if np.any(np.array(values) - np.array(others)) else None


# The page


def table(figures: dict[str, dict[str, Any]]) -> str:
    """The Markdown table of `figures`, which `evaluate` returns."""
    lines = [
        "| | MAP | nDCG@1 | nDCG@3 | nDCG@5 | residual MAP | better / worse | p, BM25 | p, Robust BM25 |",
        "| --- " * 9 + "|",
    ]
    for label, result in figures.items():
        numbers = " | ".join(f"{result[name]:.4f}" for name in COLUMNS)
        compared = "| |" if label == "BM25" else f"{result['better']} / {result['worse']} | {shown_p(result['p'])} |"
        against = "|" if label == ROBUST else f"{shown_p(result['p of Robust BM25'])} |"
        lines.append(f"| {label} | {numbers} | {compared} {against}")
    return "\n".join(lines)


def shown_p(p: float | None) -> str:
    """`p` with three decimals; None is 1."""
    return "1" if p is None else ("< .001" if p < 0.001 else f"{p:.3f}".lstrip("0"))


def draw(parts: dict[str, dict[str, Any]], path: Path) -> None:
    """Draws the change of average precision against BM25, query by query, sorted, to `path`: a row of panels per collection.

    `parts` has the figures by collection and condition.
    """
    columns = ["logged variants", "variants never logged", "unseen topics"]
    figure = new_figure(10, 2.9 * len(parts))
    axes = figure.subplots(len(parts), 3, sharex=True, sharey=True, squeeze=False)
    for axis in axes.flat:
        axis.set_visible(False)
    for row, (part, result) in enumerate(parts.items()):
        for condition, figures in result.items():
            axis = axes[row][columns.index(condition) if condition in columns else 0]
            axis.set_visible(True)
            for label, colour in (("click prior", "#e08214"), (ROBUST, "#1b6ca8")):
                change = figures[label]["change"]
                axis.plot(np.linspace(0, 100, len(change)), change, color=colour, lw=2, label=label.strip("*"))
            axis.axhline(0, color="black", lw=0.8)
            axis.set_title(f"{part}, {condition}", fontsize=11)
            axis.tick_params(labelbottom=True, labelleft=True, labelsize=11)
            axis.set_xlabel("% of queries", fontsize=11)
            axis.set_ylabel("AP minus BM25's", fontsize=11)
    axes[0][0].legend(frameon=False, fontsize=11)
    save_figure(figure, path)


def write_page(scratch: Path) -> None:
    """Rewrites the tables of the page and its picture from the figures in `scratch`."""
    parts = {name: json.loads(file.read_text()) for name in PARTS if (file := scratch / f"{name}.json").exists()}
    text = PAGE.read_text(encoding="utf-8")
    for part, result in parts.items():
        for condition, figures in result.items():
            start, end = f"<!-- table: {part}, {condition} -->\n", "<!-- end -->"
            before, _, rest = text.partition(start)
            text = f"{before}{start}{table(figures)}\n{end}{rest.partition(end)[2]}" if rest else text
    PAGE.write_text(text, encoding="utf-8")
    draw(parts, PAGE.parent / "rbm25-better-worse.svg")


def part_cran(index: kernelsearch.Index, folder: Path, scratch: Path) -> list[list[Condition]]:
    """Variants of all topics; all topics as unseen ones, each half on a log of the other.

    `folder` is the collection's, whose documents `index` has; logs are written to `scratch`.
    """
    variants = variant_conditions(index, scratch, *judged(folder))
    return [*([condition] for condition in variants), unseen_halves(index, scratch, *judged(folder))]


def part_training(index: kernelsearch.Index, folder: Path, scratch: Path) -> list[list[Condition]]:
    """As cran is asked, and short queries for one document each on a log of clicks alone.

    The parameters are those of `part_cran`.
    """
    return [*part_cran(index, folder, scratch), known_items(scratch, folder)]


def part_nfcorpus(index: kernelsearch.Index, folder: Path, scratch: Path) -> list[list[Condition]]:
    """Variants of all test topics; all test topics as unseen ones on a log of the training topics.

    The parameters are those of `part_cran`.
    """
    topics, qrels = judged(folder)
    variants = variant_conditions(index, scratch, topics, qrels)
    training, relevant = judged(folder, "train.")
    database = scratch / "training.db"
    simulated_log(
        index, database, list(training.items()), {q: {d: g for d, g in relevant[q].items() if g > 0} for q in training}, {}
    )
    return [*([condition] for condition in variants), [Condition("unseen topics", database, list(topics.items()), qrels, {})]]


def part_zerozero(index: kernelsearch.Index, folder: Path, scratch: Path) -> list[list[Condition]]:
    """Queries of a real log, each on a log without its clicks; the parameters are those of `part_cran`."""
    return [folds_of_real_log(scratch, folder, *judged(folder))]


PARTS = {"cran": part_cran, "nfcorpus": part_nfcorpus, "zerozero": part_zerozero}
#: Collections on which defaults are chosen; the page has no tables of them.
TRAINING = {"cacm": part_training, "cisi": part_training}


def main() -> None:
    """Measures the parts and rewrites the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_collections_option(parser)
    parser.add_argument("--scratch", required=True, type=Path, help="folder for indexes, logs and figures")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=[*PARTS, *TRAINING], help="what to measure")
    arguments = parser.parse_args()
    for part in arguments.parts:
        folder = arguments.collections / ("clicks_zerozero" if part == "zerozero" else part)
        scratch = arguments.scratch / part
        scratch.mkdir(parents=True, exist_ok=True)
        index = open_index(scratch / "index", folder / "corpus.jsonl", "pt" if part == "zerozero" else "en")
        figures = {group[0].name: evaluate(group, index) for group in (PARTS | TRAINING)[part](index, folder, scratch)}
        (arguments.scratch / f"{part}.json").write_text(json.dumps(figures, indent=1))
        for condition, result in figures.items():
            print(f"\n{part}, {condition}\n\n{table(result)}")
    if any(part in PARTS for part in arguments.parts):
        write_page(arguments.scratch)


if __name__ == "__main__":
    main()
