"""`python -m kernelsearch.demo`: indexes the bundled collection, runs every method on it, and compares them.

Each step is an ordinary command; it is printed before it runs, so that it can be tried with other options.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelsearch.api.build import BuildSettings, build_index
from kernelsearch.api.bundled import BUNDLED
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import count_fallbacks, fallback_messages
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.cli import console
from kernelsearch.cli.flags import add_flags, read_flags
from kernelsearch.cli.inputs import load_documents
from kernelsearch.cli.pipelines import pipeline_from_flags
from kernelsearch.cli.training import train_from_flags
from kernelsearch.core.files import write_file
from kernelsearch.core.options import Settings, option
from kernelsearch.evaluation.measures import Evaluation, evaluate, parse_measures, run_labels
from kernelsearch.evaluation.tables import render
from kernelsearch.rerankers import registry
from kernelsearch.trec import read_qrels, read_run, read_topics, write_run


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Settings):
    """Options of demo."""

    index: str = option("indexes/demo", "where to build the index")
    runs: str = option("runs/demo", "where to write the run files and the report")


#: What is run, in this order: name of the run, flags of the search verb.
RUNS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("bm25", ()),
    ("qld", ("--qld",)),
    ("rm3", ("--rm3",)),
    ("rocchio", ("--rocchio",)),
)

#: What a method is fitted with before it runs, where it needs to be: flags of the train verb.
TRAINED: dict[str, tuple[str, ...]] = {
    "klsa": (),
    "mslm": (),
    "rbm25": ("--clicks", "clicks.jsonl"),
}

NOTES = {
    "rbm25": "rbm25 learned from a click log that was simulated from these very judgements: it shows what the log is used for, "
    "not what a log is worth.",
    "fusion": "fusion ranks each half of the queries with a model that learned from the judgements of the other half.",
}

MEASURES = ("AP", "nDCG@10", "P@5", "R@100", "RR")


def main(argv: list[str]) -> None:
    """Indexes, trains, searches and evaluates."""
    parser = console.Parser(prog="python -m kernelsearch.demo", description=__doc__)
    add_flags(parser, DemoSettings.options)
    settings = read_flags(DemoSettings, parser.parse_args(argv))
    where, runs = Path(settings.index), Path(settings.runs)
    show("index", ["--input", data("corpus.jsonl"), "--index", str(where), "--force"])
    read = partial(load_documents, data("corpus.jsonl"))
    console.notice(f"{where}: {build_index(where, read, BuildSettings(force=True), progress=console.progress)}")
    topics = read_topics(BUNDLED / "topics.tsv")
    written = []
    for name, flags in all_runs():
        output = runs / f"{name}.txt"
        if name == "fusion":
            rank_by_halves(where, topics, output)
        else:
            if name in TRAINED:
                given = [data(flag) if (BUNDLED / flag).is_file() else flag for flag in TRAINED[name]]
                train(["--index", str(where), "--rerank", name, *given])
            search(where, data("topics.tsv"), topics, list(flags), output)
        written.append(str(output))
    print()
    show("evaluate", ["--qrels", data("qrels.txt"), "--measures", ",".join(MEASURES), *written])
    found = evaluate_runs(written)
    print(render("text", found, MEASURES, None, False), end="")
    write_report(runs / "report.md", found)


def show(verb: str, flags: Sequence[str]) -> None:
    """Prints the command that does the same."""
    print(f"$ python -m kernelsearch.{verb} {shlex.join(flags)}", flush=True)


def train(flags: list[str]) -> None:
    """Fits what flags of train describe."""
    show("train", flags)
    console.notice(f"{train_from_flags(flags, progress=console.progress)}: fitted")


def search(where: Path, source: str, topics: dict[str, str], flags: list[str], output: Path) -> None:
    """Writes the run of topics with flags of search."""
    show("search", ["--index", str(where), "--topics", source, "--output", str(output), *flags])
    pipeline = pipeline_from_flags(flags, Index(where, progress=console.progress))
    lists = list(run_topics(pipeline, [Topic(*topic) for topic in topics.items()], progress=console.progress))
    tag = "-".join(["kernelsearch", *(reranker.name for reranker in pipeline.rerankers)])
    count = write_run(output, ((found.qid, found.docids, found.scores) for found in lists), tag=tag)
    console.notice(f"{output}: {count} queries")
    for line in fallback_messages(count_fallbacks(found.candidates for found in lists)):
        console.notice(line)


def rank_by_halves(where: Path, topics: dict[str, str], output: Path) -> None:
    """Writes a run in which each half of the queries is ranked by a model that learned from the other half."""
    items = list(topics.items())
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(2):
            with write_file(Path(scratch) / f"half{number}.tsv") as stream:
                stream.writelines(f"{qid}\t{text}\n" for qid, text in items[number::2])
        parts = []
        for number in range(2):
            learned, ranked, model = (
                str(Path(scratch) / name) for name in (f"half{1 - number}.tsv", f"half{number}.tsv", "model")
            )
            given = ["--topics", learned, "--qrels", data("qrels.txt"), "--output", model]
            train(["--index", str(where), "--rerank", "fusion", *given])
            parts.append(Path(f"{ranked}.run"))
            flags = ["--rerank", "fusion", "--fusion.model", model]
            search(where, ranked, dict(items[number::2]), flags, parts[-1])
        with write_file(output) as stream:
            stream.writelines(part.read_text(encoding="utf-8") for part in parts)


def data(name: str) -> str:
    """A file of the bundled collection, as short as it can be written from here."""
    path = BUNDLED / name
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def all_runs() -> list[tuple[str, tuple[str, ...]]]:
    """First-stage runs, then one for every method with its default settings."""
    return [*RUNS, *((name, ("--rerank", name)) for name in registry.names())]


def evaluate_runs(runs: list[str]) -> dict[str, Evaluation]:
    """The evaluation of each run by its short name."""
    qrels, measures = read_qrels(BUNDLED / "qrels.txt"), parse_measures(MEASURES)
    return {label: evaluate(qrels, read_run(run), measures) for run, label in zip(runs, run_labels(runs), strict=True)}


def write_report(path: Path, found: dict[str, Evaluation]) -> None:
    """The comparison as Markdown: means, and how many queries each method helped and hurt against BM25."""
    base = found["bm25"].values["AP"]
    lines = [
        "# The bundled collection, every method with its default settings",
        "",
        f"{len(base)} queries. Helped and hurt: average precision rises or falls by more than 0.001 against BM25.",
        "",
        "| run | " + " | ".join(MEASURES) + " | helped | hurt |",
        "| --- |" + " ---: |" * (len(MEASURES) + 2),
    ]
    for label, one in found.items():
        gain = [one.values["AP"][qid] - base[qid] for qid in base]
        cells = [f"{one.mean(name):.4f}" for name in MEASURES]
        counts = (sum(value > 0.001 for value in gain), sum(value < -0.001 for value in gain))
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {counts[0]} | {counts[1]} |")
    lines += [line for name, note in NOTES.items() if name in found for line in ("", note)]
    with write_file(path) as stream:
        stream.write("\n".join(lines) + "\n")
    console.notice(f"{path}: the same as a table in Markdown")


if __name__ == "__main__":
    console.run(main)
