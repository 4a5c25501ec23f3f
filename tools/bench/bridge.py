"""Measures the Lucene bridge against the real pyserini, both on the same index and the same Java.

    make bench-bridge                                  # both collections below
    make bench-bridge BENCH_ARGS="--quick"             # a few thousand documents
    make bench-bridge BENCH_ARGS="--documents 50000"   # real text of the machine, or synthetic where it has too little

Each figure comes from fresh processes, pyserini's and ours by turns; times to a first result count from the start of the
process. Both libraries must give the same ranked lists, or the run stops.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from kernelsearch.core.tables import text_table
from tools import environment
from tools.data import machine_text, synthetic

REAL, SYNTHETIC = 50_000, 500_000
#: Measure, unit, decimals, whether less is better, how many times better than pyserini we aim to be.
MEASURES = {
    "first": ("time to a first result", "s", 2, True, 10),
    "export": ("term frequencies of all documents, postings per CPU second", "thousand", 0, False, 100),
    "forward": ("the same with positions, written to disk", "thousand", 0, False, None),
    "search": ("top 1,000 with docids and scores", "ms", 1, True, 5),
    "vectors": ("term vectors of 1,000 hits", "ms", 2, True, 500),
}


def main() -> None:
    """Compares both libraries on the collections that the flags ask for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pyserini", default=".venv-pyserini/bin/python", help="the Python that has the full pyserini")
    parser.add_argument("--documents", type=int, help="number of documents of the only collection, instead of both collections")
    parser.add_argument("--synthetic", action="store_true", help="synthetic text even where the machine has enough real text")
    parser.add_argument("--quick", action="store_true", help="one collection of 5,000 documents, one round")
    parser.add_argument("--rounds", type=int, default=3, help="processes per measure and library; the median counts")
    parser.add_argument("--scratch", help="where collection and index go (default: a temporary folder)")
    arguments = parser.parse_args()
    if not Path(arguments.pyserini).exists():
        raise SystemExit(f"{arguments.pyserini}: not found; make .venv-pyserini/.ready builds it")
    sizes = [arguments.documents] if arguments.documents else [5000] if arguments.quick else [REAL, SYNTHETIC]
    for size in sizes:
        with tempfile.TemporaryDirectory(dir=arguments.scratch) as folder:
            compare(
                Path(folder),
                size,
                arguments.synthetic or size >= SYNTHETIC,
                arguments.pyserini,
                1 if arguments.quick else arguments.rounds,
            )


def compare(folder: Path, size: int, made_up: bool, pyserini: str, rounds: int) -> None:
    """Builds one collection and prints its table.

    Parameters
    ----------
    folder : where collection, index and queries are written
    size : number of documents
    made_up : synthetic text, even where the machine has enough real text
    pyserini : the Python that has the full pyserini
    rounds : processes per measure and library; the median counts
    """
    kind, queries = write_collection(folder, size, made_up)
    start = time.perf_counter()
    flags = ["--input", folder / "corpus.jsonl", "--index", folder / "index", "--threads", "2"]
    subprocess.run([sys.executable, "-m", "kernelsearch.index", *map(str, flags)], check=True, stdout=subprocess.DEVNULL)
    print(f"{size:,} documents ({kind}), indexed in {time.perf_counter() - start:.0f} s")
    (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    rows: list[tuple[str, ...]] = []
    result: dict[str, dict[str, list[dict]]] = {}
    for measure, (label, unit, decimals, less, aim) in MEASURES.items():
        runs: dict[str, list[dict]] = {"pyserini": [], "kernelsearch": []}
        pythons = {"pyserini": pyserini, "kernelsearch": sys.executable}
        if measure == "forward":  # pyserini has one way to export
            runs["pyserini"] = result["export"]["pyserini"]
            del pythons["pyserini"]
        if measure == "first":  # neither side reads its files from a cold disk
            for name, python in pythons.items():
                probe(python, name, measure, folder)
        for _ in range(rounds):
            for name, python in pythons.items():
                runs[name].append(probe(python, name, measure, folder))
        key = {"first": "seconds", "export": "kps", "forward": "kps"}.get(measure, "ms")
        theirs, ours = (statistics.median(run[key] for run in runs[name]) for name in runs)
        ratio = theirs / ours if less else ours / theirs
        rows.append((f"{label} ({unit})", f"{theirs:,.{decimals}f}", f"{ours:,.{decimals}f}", f"{ratio:.1f}", str(aim or "")))
        result[measure] = runs
    check_agreement(result["search"])
    for measure in MEASURES:
        theirs, ours = (statistics.median(run["megabytes"] for run in result[measure][name]) for name in result[measure])
        label = MEASURES[measure][0].removesuffix(", postings per CPU second")
        rows.append((f"peak memory: {label} (MB)", f"{theirs:,.0f}", f"{ours:,.0f}", f"{theirs / ours:.1f}", ""))
    print(text_table(("measure", "pyserini", "kernelsearch", "times better", "aim"), rows), end="\n\n", flush=True)


def write_collection(folder: Path, size: int, made_up: bool) -> tuple[str, list[str]]:
    """Writes `size` documents to corpus.jsonl in `folder`; returns a description of the text, and queries.

    The text is synthetic if `made_up`, or where the machine has too little real text. A query is three words of one document.
    """
    if not made_up:
        kind, count = "package descriptions and manual pages", dump(folder, machine_text.records(size))
    if made_up or count < size:
        kind = "synthetic, Zipfian"
        dump(folder, synthetic.Generator(size).records())
    rng = random.Random(1)
    chosen = set(rng.sample(range(size), min(size, 150)))
    queries = []
    with open(folder / "corpus.jsonl", encoding="utf-8") as stream:
        for number, line in enumerate(stream):
            words = re.findall(r"[a-z]{4,}", json.loads(line)["contents"].lower()) if number in chosen else []
            if len(words) >= 3:
                queries.append(" ".join(rng.sample(words, 3)))
    return kind, queries


def dump(folder: Path, records: Iterable[dict[str, str]]) -> int:
    """Writes `records`, one JSON object per line, to corpus.jsonl in `folder`; returns their number."""
    count = 0
    with open(folder / "corpus.jsonl", "w", encoding="utf-8") as stream:
        for record in records:
            stream.write(json.dumps(record) + "\n")
            count += 1
    return count


def probe(python: str, library: str, measure: str, folder: Path) -> dict:
    """Runs one process of tools.bench.probes and returns its figures, with the seconds until its first line of output.

    Parameters
    ----------
    python : the interpreter of the library
    library : pyserini or kernelsearch
    measure : a key of MEASURES
    folder : has `index` and `queries.json`; the errors of the process are written to it
    """
    command = [python, "-m", "tools.bench.probes", library, measure, str(folder / "index"), str(folder / "queries.json")]
    with open(folder / "complaints.txt", "w+", encoding="utf-8") as complaints:
        start = time.perf_counter()
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True, env=environment()) as process:
            assert process.stdout is not None
            output = process.stdout.readline()
            seconds = time.perf_counter() - start
            output += process.stdout.read()
        if process.returncode:
            complaints.seek(0)
            raise SystemExit(f"{library} {measure}: failed\n{complaints.read()[-2000:]}")
    return {"seconds": seconds, **json.loads(output.splitlines()[-1])}


def check_agreement(runs: dict[str, list[dict]]) -> None:
    """Ends the program where the ranked lists differ; `runs` has the figures of the probe `search` by library."""
    theirs, ours = runs["pyserini"][0]["lists"], runs["kernelsearch"][0]["lists"]
    if theirs != ours:
        raise SystemExit("pyserini and kernelsearch found different documents: nothing to compare")


if __name__ == "__main__":
    main()
