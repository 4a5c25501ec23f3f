"""The steps of the demonstration: build the index, fit and run every method, evaluate all runs.

Each step is what an ordinary command does. The command is reported before the step runs, so that it can be tried with other
options; `Report` has a function for such lines, and one for messages.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from kernelsearch.api.build import BuildSettings, build_index
from kernelsearch.api.bundled import BUNDLED_FOLDER
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import count_fallbacks, fallback_messages
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.cli.flags import pipeline_from_flags
from kernelsearch.cli.inputs import load_documents
from kernelsearch.cli.training import train_from_flags
from kernelsearch.core.files import write_file
from kernelsearch.core.progress import Progress, silent
from kernelsearch.core.tables import text_table
from kernelsearch.evaluation.measures import Evaluation, evaluate_runs, parse_measures
from kernelsearch.evaluation.run_files import read_runs
from kernelsearch.rerankers import registry
from kernelsearch.trec import read_qrels, read_topics, write_run

#: First-stage runs: their names, and the flags of search.
FIRST_STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("bm25", ()),
    ("qld", ("--qld",)),
    ("rm3", ("--rm3",)),
    ("rocchio", ("--rocchio",)),
)

#: Flags of train for methods that are fitted before they run.
TRAINED: dict[str, tuple[str, ...]] = {
    "klsa": (),
    "mslm": (),
    "rbm25": ("--clicks", "clicks.jsonl"),
}

#: Methods that need more than the bundled collection has: vectors of an encoder.
LEFT_OUT = ("dense",)

#: Remarks on methods below the table of the report.
REMARKS = {
    "rbm25": "rbm25 learned from a click log that was simulated from these very judgements: it shows what the log is used for, "
    "not what a log is worth.",
    "fusion": "fusion ranks each half of the queries with a model that learned from the judgements of the other half.",
}

#: Queries that show what the methods do: two that most of them improve, one for kernel LSA, one for clicks, one that expansion
#: hurts, one for which no method has a relevant document among its first ten.
SHOWCASE = ("d39", "d76", "d95", "d83", "d54", "d90")
#: The runs that are compared on them.
SHOWCASE_RUNS = ("bm25", "rm3", "klsa", "mslm", "pert", "auto", "rbm25")

MEASURES = ("AP", "nDCG@10", "P@5", "R@100", "RR")


@dataclass(frozen=True)
class Report:
    """Where the demonstration reports to: `command` gets each command line, `message` each result, `progress` bars."""

    command: Callable[[str], None]
    message: Callable[[str], None]
    progress: Progress = silent

    def show(self, verb: str, flags: Sequence[str]) -> None:
        """Reports the command, `verb` and `flags`, that does the same as the next step."""
        self.command(f"python -m kernelsearch.{verb} {shlex.join(flags)}")


def build_demo_index(index: Path, report: Report) -> None:
    """Builds the index of the bundled collection in the folder `index`, replacing one that is there; reports to `report`."""
    corpus = bundled_file("corpus.jsonl")
    report.show("index", ["--input", corpus, "--index", str(index), "--force"])
    built = build_index(index, partial(load_documents, corpus), BuildSettings(force=True), progress=report.progress)
    report.message(f"{index}: {built}")


def run_all(index: Path, runs: Path, report: Report) -> list[str]:
    """Writes the runs of all first stages and of every method with its default settings; returns the paths.

    `index` is the folder of the index, `runs` that of the runs; commands are shown by `report`.
    """
    topics = read_topics(BUNDLED_FOLDER / "topics.tsv")
    written = []
    methods = [name for name in registry.names() if name not in LEFT_OUT]
    for name, flags in [*FIRST_STAGES, *((name, ("--rerank", name)) for name in methods)]:
        output = runs / f"{name}.txt"
        if name == "fusion":
            _run_by_halves(index, topics, output, report)
        else:
            if name in TRAINED:
                options = [bundled_file(flag) if (BUNDLED_FOLDER / flag).is_file() else flag for flag in TRAINED[name]]
                _train(["--index", str(index), "--rerank", name, *options], report)
            _search(index, bundled_file("topics.tsv"), topics, list(flags), output, report)
        written.append(str(output))
    return written


def evaluate_demo(runs: Sequence[str], report: Report) -> dict[str, Evaluation]:
    """The evaluation of each of the files `runs` by its label; the command is shown by `report`."""
    report.show("evaluate", ["--qrels", bundled_file("qrels.txt"), "--measures", ",".join(MEASURES), *runs])
    return evaluate_runs(read_qrels(BUNDLED_FOLDER / "qrels.txt"), read_runs(runs), parse_measures(MEASURES))


def showcase_table(evaluations: Mapping[str, Evaluation], topics: Mapping[str, str]) -> str:
    """The nDCG@10 of each method on the queries of SHOWCASE; `evaluations` are by label, `topics` is {qid: text}."""
    runs = [name for name in SHOWCASE_RUNS if name in evaluations]
    rows = [(topics[qid], *(f"{evaluations[name].values['nDCG@10'][qid]:.3f}" for name in runs)) for qid in SHOWCASE]
    return text_table(("nDCG@10 of some queries", *runs), rows)


def write_markdown(path: Path, evaluations: Mapping[str, Evaluation]) -> None:
    """Writes the means of all `evaluations` to `path` as Markdown, with the numbers of queries better and worse than BM25."""
    base = evaluations["bm25"].values["AP"]
    lines = [
        "# The bundled collection, every method with its default settings",
        "",
        f"{len(base)} queries. Helped and hurt: average precision rises or falls by more than 0.001 against BM25.",
        "",
        "| run | " + " | ".join(MEASURES) + " | helped | hurt |",
        "| --- |" + " ---: |" * (len(MEASURES) + 2),
    ]
    for label, evaluation in evaluations.items():
        gains = [evaluation.values["AP"][qid] - base[qid] for qid in base]
        cells = [f"{evaluation.mean(name):.4f}" for name in MEASURES]
        cells += [str(sum(gain > 0.001 for gain in gains)), str(sum(gain < -0.001 for gain in gains))]
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    lines += [line for name, remark in REMARKS.items() if name in evaluations for line in ("", remark)]
    with write_file(path) as stream:
        stream.write("\n".join(lines) + "\n")


def bundled_file(name: str) -> str:
    """The path of the file `name` of the bundled collection, relative to the working directory where it lies below it."""
    path = BUNDLED_FOLDER / name
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def _train(flags: list[str], report: Report) -> None:
    report.show("train", flags)
    report.message(f"{train_from_flags(flags, progress=report.progress)}: fitted")


def _search(index: Path, source: str, topics: dict[str, str], flags: list[str], output: Path, report: Report) -> None:
    """Writes the run of some topics, which `source` is the file of, with flags of search."""
    report.show("search", ["--index", str(index), "--topics", source, "--output", str(output), *flags])
    pipeline = pipeline_from_flags(flags, Index(index, progress=report.progress))
    lists = list(run_topics(pipeline, [Topic(*topic) for topic in topics.items()], progress=report.progress))
    tag = "-".join(["kernelsearch", *(reranker.name for reranker in pipeline.rerankers)])
    count = write_run(output, ((ranked.qid, ranked.docids, ranked.scores) for ranked in lists), tag=tag)
    report.message(f"{output}: {count} queries")
    for line in fallback_messages(count_fallbacks(ranked.candidates for ranked in lists)):
        report.message(line)


def _run_by_halves(index: Path, topics: dict[str, str], output: Path, report: Report) -> None:
    """Writes a run of fusion in which each half of the queries is ranked by a model that learned from the other half."""
    items = list(topics.items())
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(2):
            with write_file(Path(scratch) / f"half{number}.tsv") as stream:
                stream.writelines(f"{qid}\t{text}\n" for qid, text in items[number::2])
        parts = []
        for number in range(2):
            training, ranked, model = (
                str(Path(scratch) / name) for name in (f"half{1 - number}.tsv", f"half{number}.tsv", "model")
            )
            options = ["--topics", training, "--qrels", bundled_file("qrels.txt"), "--output", model]
            _train(["--index", str(index), "--rerank", "fusion", *options], report)
            parts.append(Path(f"{ranked}.run"))
            flags = ["--rerank", "fusion", "--fusion.model", model]
            _search(index, ranked, dict(items[number::2]), flags, parts[-1], report)
        with write_file(output) as stream:
            stream.writelines(part.read_text(encoding="utf-8") for part in parts)
