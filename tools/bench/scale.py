"""What a collection costs by stage and how the cost grows with its size, on seeded synthetic collections.

    python -m tools.bench.scale --scratch FOLDER                 measures 250k, 500k, 1M and 2M documents, one after the other
    python -m tools.bench.scale --scratch FOLDER --sizes 250000  one size; what is measured already is not measured again
    python -m tools.bench.scale --scratch FOLDER --report        only prints the tables

Each stage is a process of its own: `kernelsearch.index` (Lucene), `kernelsearch.index` (forward index), `kernelsearch.train`
(basis), FAISS, and two searches of 1,000 topics (reranking 1,000 candidates; the same with 100 neighbours looked up in FAISS).
Java runs inside the same process, so a process's figures include it. Results are appended to FOLDER/scale.json as they come.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from kernelsearch.core.tables import text_table
from tools import ROOT
from tools.bench.process_memory import process_memory
from tools.data import synthetic

SIZES = (250_000, 500_000, 1_000_000, 2_000_000)
STAGES = ("index", "export", "basis", "faiss", "rerank", "retrieve")
TOPICS, DIMS = 1000, 300
#: What kernel LSA has no use for is not stored: text, records, Lucene's document vectors.
FITTED = ("--klsa.dims", DIMS, "--klsa.neighbours", "flat")
LEAN = ("--no-forward", "--no-docvectors", "--no-contents", "--no-raw")
#: Peaks of memory are read from /proc at this interval, in seconds.
INTERVAL = 0.2

FAISS_PROGRAM = """
import sys, numpy as np
from pathlib import Path
from kernelsearch.neighbours import Neighbours
folder, kind = Path(sys.argv[1]), sys.argv[2]
built = Neighbours.build(np.load(folder / "rows.npy", mmap_mode="r"), kind)
built.save(folder / f"neighbours.{built.kind}")
"""


def main() -> None:
    """Measures the sizes that have no results yet, and prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scratch", required=True, type=Path, help="where collections, indexes and results go")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="documents of each collection")
    parser.add_argument("--stages", nargs="+", default=list(STAGES), choices=STAGES, help="stop after some of the stages")
    parser.add_argument("--memory-limit", default="4G", help="memory limit of index and train")
    parser.add_argument("--neighbours", default="ivf-sq8", help="kind of the FAISS index")
    parser.add_argument("--keep", action="store_true", help="don't delete a size's files when it is measured")
    parser.add_argument("--report", action="store_true", help="only print the tables")
    arguments = parser.parse_args()
    arguments.scratch.mkdir(parents=True, exist_ok=True)
    results = arguments.scratch / "scale.json"
    for size in [] if arguments.report else arguments.sizes:
        measure(arguments, size, results)
    report(read(results))


def measure(arguments: argparse.Namespace, size: int, results: Path) -> None:
    """Runs the stages of `size` documents that have no result yet, and appends what they cost to the file `results`.

    `arguments` are those of the command line.
    """
    folder = arguments.scratch / str(size)
    folder.mkdir(exist_ok=True)
    index, corpus, topics = folder / "index", folder / "corpus.jsonl", folder / "topics.tsv"
    basis = index / "kernelsearch" / "klsa"
    limit = ("--memory-limit", arguments.memory_limit)
    search = ("kernelsearch.search", "--index", index, "--topics", topics, "--rerank", "klsa", "--batch-size", 64)
    commands: dict[str, tuple[Any, ...]] = {
        "index": ("-m", "kernelsearch.index", "--input", corpus, "--index", index, *LEAN, "--force", *limit),
        "export": ("-m", "kernelsearch.index", "--index", index, *limit),
        "basis": ("-m", "kernelsearch.train", "--index", index, "--rerank", "klsa", *FITTED, *limit),
        "faiss": ("-c", FAISS_PROGRAM, basis, arguments.neighbours),
        "rerank": ("-m", *search, "--klsa.retrieve", 0, "--output", folder / "rerank.txt"),
        "retrieve": ("-m", *search, "--klsa.retrieve", 100, "--output", folder / "retrieve.txt"),
    }
    for stage in STAGES:
        if stage not in arguments.stages or (size, stage) in read(results):
            continue
        if stage == "index" and not corpus.exists():
            write_collection(size, corpus, topics)
        before = disk(folder)
        result = watched([sys.executable, *map(str, commands[stage])], folder / f"{stage}.log")
        result |= {"documents": size, "stage": stage, "disk": disk(folder) - before}
        if stage == "export":
            result |= counts(index)
        with open(results, "a", encoding="utf-8") as stream:
            stream.write(json.dumps(result) + "\n")
        print(f"{size:,} {stage}: {result}", flush=True)
        if stage == "index":
            result["corpus"] = corpus.stat().st_size
            corpus.unlink()
    if not arguments.keep and all((size, stage) in read(results) for stage in STAGES):
        shutil.rmtree(folder)


def write_collection(size: int, corpus: Path, topics: Path) -> None:
    """Writes a seeded collection of `size` documents to the file `corpus`, and queries to the file `topics`."""
    generator = synthetic.GrowingGenerator(size, mean_length=80)
    topics.write_text("".join(f"{qid}\t{text}\n" for qid, text in generator.queries(TOPICS)), encoding="utf-8")
    partial = corpus.with_suffix(".partial")
    synthetic.write_jsonl(generator, partial)
    os.replace(partial, corpus)


def watched(command: list[str], log: Path) -> dict[str, Any]:
    """Runs a command with its output in the file `log`; ends the program where it fails.

    Returns seconds, CPU seconds (`cpu`), peak memory in bytes with mapped files (`peak`) and without (`own`), and the last two
    lines of output (`said`).
    """
    start, own = time.perf_counter(), 0
    with open(log, "w", encoding="utf-8") as stream:
        process = subprocess.Popen(command, cwd=ROOT, stdout=stream, stderr=stream)
        while (ended := os.wait4(process.pid, os.WNOHANG))[0] == 0:
            own = max(own, process_memory("RssAnon", process.pid))
            time.sleep(INTERVAL)
    process.returncode = os.waitstatus_to_exitcode(ended[1])
    if process.returncode:
        raise SystemExit(f"{' '.join(command)[:300]}: failed\n{log.read_text(encoding='utf-8')[-2000:]}")
    usage = ended[2]
    return {
        "seconds": round(time.perf_counter() - start, 1),
        "cpu": round(usage.ru_utime + usage.ru_stime, 1),
        "peak": usage.ru_maxrss * 1024,
        "own": own,
        "said": log.read_text(encoding="utf-8").splitlines()[-2:],
    }


def disk(folder: Path) -> int:
    """Bytes below `folder`, the collection's text left out."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and not file.name.startswith("corpus"))


def counts(index: Path) -> dict[str, int]:
    """Postings, tokens and terms of the contents of `index`."""
    from kernelsearch.forward import ForwardIndex

    forward = ForwardIndex(index / "kernelsearch" / "forward" / "contents")
    return {
        "postings": forward.statistics.postings,
        "tokens": forward.statistics.tokens,
        "terms": len(forward.terms),
    }


def read(results: Path) -> dict[tuple[int, str], dict[str, Any]]:
    """Results so far, from the file `results`, by size and stage; a later line replaces an earlier one."""
    if not results.exists():
        return {}
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    return {(line["documents"], line["stage"]): line for line in lines}


def report(result: dict[tuple[int, str], dict[str, Any]]) -> None:
    """Prints costs per stage and size, and growth exponents: the slope of log cost over log documents.

    `result` has the costs by size and stage, as `read` returns them.
    """
    sizes = sorted({size for size, _ in result})
    rows = [
        (f"{size:,}", stage, f"{figures['seconds']:,.0f}", f"{figures['cpu']:,.0f}", *_gigabytes(figures))
        for size in sizes
        for stage in STAGES
        if (figures := result.get((size, stage)))
    ]
    print(text_table(("documents", "stage", "seconds", "CPU s", "peak GB", "own GB", "disk GB"), rows, align="><>>>>>"))
    for size in sizes:
        if figures := result.get((size, "export")):
            counts = ", ".join(f"{figures[name]:,} {name}" for name in ("postings", "tokens", "terms"))
            print(f"{size:,} documents: {counts}")
    slopes = []
    for stage in STAGES:
        have = [size for size in sizes if (size, stage) in result]
        if len(have) > 1:
            cells = []
            for key in ("cpu", "own", "disk"):
                values = [max(result[size, stage][key], 1e-9) for size in have]
                cells.append(f"{np.polyfit(np.log(have), np.log(values), 1)[0]:.2f}" if min(values) > 1e-3 else "-")
            slopes.append((stage, len(have), *cells))
    if slopes:
        print(text_table(("stage", "sizes", "CPU time", "own memory", "disk"), slopes, align="<>>>>"))


def _gigabytes(figures: dict[str, Any]) -> list[str]:
    return [f"{figures[key] / 1e9:.2f}" for key in ("peak", "own", "disk")]


if __name__ == "__main__":
    main()
