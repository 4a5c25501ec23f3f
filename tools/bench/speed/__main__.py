"""Each path beside its peer in the same run; writes docs/speed.md.

    make bench                                          # all groups, with the peers of .venv-bench and .venv-pyserini
    make bench BENCH_ARGS="--only service,vectors"      # replaces their sections of the page
    python -m tools.bench.speed --sizes 2000 --repetitions 1    # prints the sections; a quick look

A peer that is not installed is left out, and the page says so.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
# Times from the start of a process are those of an installation, whose byte code is written once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

from tools.bench.speed import building, evaluating, searching, service, vectors
from tools.bench.speed.collection import Collection
from tools.bench.speed.measuring import Bench, Peers, used_cpu
from tools.bench.speed.page import Section, render, write_page
from tools.bench.speed.peers import HITS

#: The groups by name: what measures one, and its section of the page.
GROUPS: dict[str, tuple[Callable[[Bench, list[Collection]], None], Section]] = {
    "search": (
        searching.run,
        Section(
            "Search",
            "60 queries of four words, 1,000 hits, one by one with analysis, in one warm process. Anserini's SimpleSearcher is "
            "what Pyserini calls; it runs in the same Java, and its times include handing its hits to Python. bm25s has its "
            "own tokeniser and its default BM25. Anserini's RM3 and the first stages on the larger collection have 20 queries; "
            "PRCL has 3. "
            "PyTerrier's own retrieval is not compared: its jars can't be installed from PyPI; `make bench-dropin` measures "
            "our adapters for it.",
        ),
    ),
    "threads": (
        searching.run_threads,
        Section(
            "Two processes",
            "320 queries of four words (3,000 for BM25), 1,000 hits, in batches: this process and another one "
            "(`ProcessEngine`), both warm, beside this process alone; then whole commands that write a run, 3,000 topics by "
            "BM25 and 800 by auto, from start to end (further processes are started for more than three seconds of work "
            "only). 0.59 means 1.7 times the throughput.",
        ),
    ),
    "build": (
        building.run,
        Section(
            "Indexing, export, basis, start",
            "Indexing is a process of its own with one thread; positions, document vectors, contents and raw documents are "
            "stored, and one segment is made. `get_document_vector` is timed on 500 documents, the export on the whole "
            "collection. Bases are fitted to a tolerance of 1e-2; the peers decompose tf·idf of the same postings, "
            "kernelsearch the BM25 kernel.",
        ),
    ),
    "evaluation": (
        evaluating.run,
        Section(
            "Evaluation",
            "1,000 topics with 1,000 documents each; reading the files is part of the time. *documents* are lines of the run.",
        ),
    ),
    "vectors": (
        vectors.run,
        Section(
            "Vectors",
            "Random unit vectors of 384 dimensions, float16; query vectors come from a file on both sides; one thread. "
            "Encoding: 16 documents cut at 256 tokens, a model with random weights, two cores, vectors equal to 1e-3.",
        ),
    ),
    "service": (
        service.run,
        Section(
            "Service",
            "Rounds of one second over kept-open connections (`tools/bench/load.py`, which shares the cores), after a warm-up. "
            "0.2 ms per answer are 5,000 requests per second. Both servers give the same lists. The first requests are those "
            "after a start of the service, once per repetition, with two queries of its own each time.",
        ),
    ),
}


def main() -> None:
    """Measures the groups that are asked for and writes or prints their sections."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.speed", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", type=Path, help="the page to write; default: the sections are printed")
    parser.add_argument("--sizes", default="10000,100000", help="documents of the collections, smallest first")
    parser.add_argument("--repetitions", type=int, default=5, help="counted repetitions of each path and its peer, by turns")
    parser.add_argument("--only", default=",".join(GROUPS), help=f"groups to measure, of {', '.join(GROUPS)}")
    parser.add_argument("--peers", type=Path, default=Path(".venv-bench/bin/python"), help="the Python with other libraries")
    parser.add_argument(
        "--pyserini", type=Path, default=Path(".venv-pyserini/bin/python"), help="the Python with the full pyserini"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.only.split(",") if name not in GROUPS]
    if unknown:
        parser.error(f"--only: {unknown[0]!r} is not one of {', '.join(GROUPS)}")
    sizes = tuple(int(size) for size in arguments.sizes.split(","))
    if min(sizes) < HITS:
        parser.error(f"--sizes: at least {HITS} documents are needed")
    order = [section for _, section in GROUPS.values()]
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(scratch) / "byte-code")
        folder = Path(scratch)
        collections = [Collection(folder / str(size), size) for size in sizes]
        for name in arguments.only.split(","):
            function, section = GROUPS[name]
            bench = Bench(folder, sizes, arguments.repetitions, Peers(arguments.peers), Peers(arguments.pyserini))
            load, begun, spent = os.getloadavg()[0], time.perf_counter(), used_cpu()
            function(bench, collections)
            bench.libraries.close()
            bench.pyserini.close()
            seconds = time.perf_counter() - begun
            print(f"{name}: {seconds:.0f} s, {used_cpu() - spent:.0f} CPU s", file=sys.stderr)
            text = render(section, bench.rows, {**bench.libraries.missing, **bench.pyserini.missing}, load, seconds)
            if arguments.page:
                write_page(arguments.page, {section.title: text}, order)  # now, so that a run that is stopped has written it
            else:
                print(text)


if __name__ == "__main__":
    main()
