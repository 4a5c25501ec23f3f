"""`python -m kernelsearch.demo`: indexes the bundled collection, runs every method on it, and compares them.

Each step is an ordinary command; it is printed before it runs, so that it can be tried with other options.
"""

from __future__ import annotations

import shlex
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from kernelsearch import evaluate, index, rerankers, search, train
from kernelsearch.cli import console
from kernelsearch.core.files import write_file
from kernelsearch.core.options import Option, add_flags, collect, resolve
from kernelsearch.demo import DATA
from kernelsearch.evaluation import measures
from kernelsearch.trec import read_qrels, read_run, read_topics

OPTIONS = (
    Option("index", str, "indexes/demo", "where to build the index"),
    Option("runs", str, "runs/demo", "where to write the run files and the report"),
)

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
    parser = console.Parser(prog="python -m kernelsearch.demo", description=__doc__)
    add_flags(parser, OPTIONS)
    settings = resolve(OPTIONS, collect(parser.parse_args(argv), OPTIONS))
    where, runs = Path(settings["index"]), Path(settings["runs"])
    step("index", index.main, ["--input", data("corpus.jsonl"), "--index", str(where), "--force"])
    written = []
    for name, flags in all_runs():
        output = runs / f"{name}.txt"
        if name == "fusion":
            halves(where, output)
        else:
            if name in TRAINED:
                given = [data(flag) if (DATA / flag).is_file() else flag for flag in TRAINED[name]]
                step("train", train.main, ["--index", str(where), "--rerank", name, *given])
            found = ["--index", str(where), "--topics", data("topics.tsv"), "--output", str(output)]
            step("search", search.main, [*found, *flags])
        written.append(str(output))
    print()
    step("evaluate", evaluate.main, ["--qrels", data("qrels.txt"), "--measures", ",".join(MEASURES), *written])
    report(runs / "report.md", written)


def halves(where: Path, output: Path) -> None:
    """A run in which each half of the queries is ranked by a model that learned from the other half."""
    topics = list(read_topics(DATA / "topics.tsv").items())
    with tempfile.TemporaryDirectory() as scratch:
        for number in range(2):
            with write_file(Path(scratch) / f"half{number}.tsv") as stream:
                stream.writelines(f"{qid}\t{text}\n" for qid, text in topics[number::2])
        for number in range(2):
            learned, ranked, model = (
                str(Path(scratch) / name) for name in (f"half{1 - number}.tsv", f"half{number}.tsv", "model")
            )
            index_flags = ["--index", str(where), "--rerank", "fusion"]
            step("train", train.main, [*index_flags, "--topics", learned, "--qrels", data("qrels.txt"), "--output", model])
            found = ["--topics", ranked, "--fusion.model", model, "--output", f"{ranked}.run"]
            step("search", search.main, [*index_flags, *found])
        with write_file(output) as stream:
            stream.writelines((Path(scratch) / f"half{number}.tsv.run").read_text(encoding="utf-8") for number in range(2))


def data(name: str) -> str:
    """A file of the bundled collection, as short as it can be written from here."""
    path = DATA / name
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


def all_runs() -> list[tuple[str, tuple[str, ...]]]:
    """First-stage runs, then one for every method with its default settings."""
    return [*RUNS, *((name, ("--rerank", name)) for name in rerankers.names())]


def step(verb: str, run: Callable[[list[str]], None], flags: Sequence[str]) -> None:
    print(f"$ python -m kernelsearch.{verb} {shlex.join(flags)}", flush=True)
    run(list(flags))


def report(path: Path, runs: list[str]) -> None:
    """The comparison as Markdown: means, and how many queries each method helped and hurt against BM25."""
    qrels = read_qrels(DATA / "qrels.txt")
    chosen = measures.parse_measures(MEASURES)
    found = {
        label: measures.evaluate(qrels, read_run(run), chosen) for run, label in zip(runs, evaluate.labels(runs), strict=True)
    }
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
