"""Each path beside its peer in the same run, as a ratio of CPU times; writes docs/speed.md.

    make bench                                                # with the peers of .venv-bench
    python -m tools.bench.speed --page docs/speed.md [--documents 10000] [--repetitions 5] [--peers .venv-bench/bin/python]

Path and peer take turns, so that a busy machine slows both alike. A time is CPU time of the whole process and of the processes
that it starts. A peer that is not installed is left out, and the page says so.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD

import kernelsearch
from kernelsearch.api.index import Index
from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.tables import text_table
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.lucene import jvm
from kernelsearch.lucene.first_stage import FirstStage
from kernelsearch.lucene.models import RM3, BM25Model, Feedback
from kernelsearch.lucene.simple import simple_search, simple_searcher
from kernelsearch.rerankers.klsa.basis import fit_basis
from tools.data import synthetic

# More queries than a fusion caches tables of, or every repetition but the first would measure the cache.
HITS, DIMS, QUERIES, TERMS = 1000, 50, 60, 4
#: Repetitions that are not counted: Java and numba compile meanwhile.
WARM_UP = 2

Command = list[str | Path]
#: Does the work once.
Work = Callable[[], object]


@dataclass(frozen=True)
class Pair:
    """A path of kernelsearch and a peer's: their names, and functions that return the CPU seconds of one repetition."""

    path: str
    peer: str
    ours: Callable[[], float]
    theirs: Callable[[], float]
    warm_up: int = WARM_UP


class PeerProcess:
    """A peer in another environment; raises FileNotFoundError where it is not installed."""

    def __init__(self, python: Path, name: str, folder: Path) -> None:
        command: Command = [python, Path(__file__).with_name("speed_peers.py"), name, folder]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        if not self._answer().startswith("ready"):
            self.close()
            raise FileNotFoundError(name)

    def __call__(self) -> float:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def close(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", help="the page to write; default: the table is printed")
    parser.add_argument("--documents", type=int, default=10_000, help="documents of the synthetic collection")
    parser.add_argument("--repetitions", type=int, default=5, help="counted repetitions of each path and its peer, by turns")
    parser.add_argument("--peers", default=".venv-bench/bin/python", help="the Python that has the peers' libraries")
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        index = prepare(folder, arguments.documents)
        rows, missing = [], []
        for make in (search_pairs, basis_pairs, indexing_pairs):
            found, lacking = make(index, folder, Path(arguments.peers))
            missing += lacking
            rows += [measure(pair, arguments.repetitions) for pair in found]
    table = text_table(("path", "peer", "CPU ms", "peer's", "ratio", "range"), rows)
    print(table)
    if missing:
        print(f"not installed: {', '.join(missing)}")
    if arguments.page:
        Path(arguments.page).write_text(page(rows, missing, arguments, load), encoding="utf-8")


def prepare(folder: Path, documents: int) -> Index:
    """Writes the collection and what the peers read, and indexes it."""
    (folder / "corpus").mkdir()
    synthetic.write_jsonl(synthetic.Generator(documents), folder / "corpus" / "corpus.jsonl")
    build(folder, folder / "index")
    index = kernelsearch.open(folder / "index")
    forward, rng = index.forward, np.random.default_rng(0)
    usual = np.flatnonzero((forward.df > 20) & (forward.df < documents // 10))
    queries = [" ".join(forward.terms.take(rng.choice(usual, TERMS, replace=False))) for _ in range(QUERIES)]
    (folder / "queries.json").write_text(json.dumps(queries), encoding="utf-8")
    (folder / "dims.txt").write_text(str(DIMS))
    sparse.save_npz(folder / "matrix.npz", weighted_matrix(index))
    return index


def weighted_matrix(index: Index) -> sparse.csr_matrix:
    """tf·idf of the documents, which the peers decompose, shape (documents, terms)."""
    matrix = index.forward.matrix()
    idf = np.log(1 + len(index.forward) / np.maximum(index.forward.df, 1))
    return sparse.csr_matrix(matrix.multiply(idf))


def build(folder: Path, target: Path) -> None:
    """Indexes the collection with `kernelsearch.index`, the forward index included."""
    command: Command = [
        sys.executable,
        "-m",
        "kernelsearch.index",
        "--input",
        folder / "corpus" / "corpus.jsonl",
        "--index",
        target,
    ]
    subprocess.run([*command, "--threads", "1"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def build_with_anserini(folder: Path, target: Path) -> None:
    """Indexes it with Anserini's IndexCollection, which `python -m pyserini.index.lucene` runs, with the same things stored."""
    java: Command = [jvm.find_java() / "bin" / "java", "-cp", jvm.find_jar(), "io.anserini.index.IndexCollection"]
    source: Command = [
        "-collection",
        "JsonCollection",
        "-generator",
        "DefaultLuceneDocumentGenerator",
        "-input",
        folder / "corpus",
    ]
    stored: Command = ["-index", target, "-threads", "1", "-storePositions", "-storeDocvectors", "-storeRaw"]
    subprocess.run([*java, *source, *stored], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def cpu_time(work: Work) -> Callable[[], float]:
    """A function that does the work and returns the CPU seconds of this process and of those that it has started."""

    def used() -> float:
        own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
        return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime

    def run() -> float:
        start = used()
        work()
        return used() - start

    return run


#: What measures a group of paths: its pairs, and the peers that are not installed.
Found = tuple[list[Pair], list[str]]


def with_peer(name: str, python: Path, folder: Path, path: str, peer: str, ours: Work) -> Found:
    """A pair with a peer of the other environment, or its name where it is missing."""
    try:
        process = PeerProcess(python, name, folder)
    except FileNotFoundError:
        return [], [name]
    return [Pair(path, peer, cpu_time(ours), process)], []


def search_pairs(index: Index, folder: Path, python: Path) -> Found:
    """First stages with 1,000 hits, and `auto`, against Anserini's own and bm25s."""
    texts = json.loads((folder / "queries.json").read_text(encoding="utf-8"))

    def ours(feedback: Feedback | None = None, method: str = "") -> Work:
        pipeline = Pipeline(index, FirstStage(feedback=feedback, hits=HITS), [(method, {})] if method else [])
        return lambda: [pipeline.search([index.query(text)]) for text in texts]

    def anserini(feedback: Feedback | None = None) -> Work:
        searcher = simple_searcher(index.lucene, BM25Model(), feedback)
        return lambda: [simple_search(searcher, text, HITS) for text in texts]

    queries = f"{len(texts)} queries, {HITS} hits"
    pairs = [
        Pair(f"BM25, {queries}", "Anserini's SimpleSearcher", cpu_time(ours()), cpu_time(anserini())),
        Pair(f"RM3, {queries}", "Anserini's SimpleSearcher", cpu_time(ours(RM3())), cpu_time(anserini(RM3()))),
        Pair(f"auto, {queries}", "Anserini's RM3", cpu_time(ours(method="auto")), cpu_time(anserini(RM3()))),
    ]
    found, missing = with_peer("bm25s", python, folder, f"BM25, {queries}", "bm25s", ours())
    return pairs + found, missing


def basis_pairs(index: Index, folder: Path, python: Path) -> Found:
    """A latent basis against scikit-learn's and gensim's truncated SVD of as many dimensions."""
    matrix = sparse.load_npz(folder / "matrix.npz")

    def ours() -> object:
        shutil.rmtree(folder / "basis", ignore_errors=True)
        return fit_basis(folder / "basis", index.forward, BM25(k1=2.0, b=0.75), dims=DIMS)

    def sklearn() -> object:
        return TruncatedSVD(DIMS, algorithm="arpack", tol=1e-2).fit(matrix)

    path = f"latent basis, {DIMS} dimensions"
    pairs = [Pair(path, "scikit-learn's TruncatedSVD (ARPACK)", cpu_time(ours), cpu_time(sklearn), warm_up=1)]
    found, missing = with_peer("gensim", python, folder, path, "gensim's LsiModel", ours)
    return pairs + found, missing


def indexing_pairs(index: Index, folder: Path, python: Path) -> Found:
    """Building an index with one thread, forward index included, against Anserini's, which has none."""

    def fresh(make: Callable[[Path, Path], None]) -> Work:
        def run() -> None:
            shutil.rmtree(folder / "built", ignore_errors=True)
            make(folder, folder / "built")

        return run

    name = f"indexing {len(index.forward):,} documents, with forward index"
    peer = "Anserini's IndexCollection, without"
    return [Pair(name, peer, cpu_time(fresh(build)), cpu_time(fresh(build_with_anserini)), warm_up=0)], []


def measure(pair: Pair, repetitions: int) -> tuple[str, ...]:
    """A row of the table: medians of both times in milliseconds, the median of the ratios, and their range."""
    times = [(pair.ours(), pair.theirs()) for _ in range(pair.warm_up + repetitions)][pair.warm_up :]
    if isinstance(pair.theirs, PeerProcess):
        pair.theirs.close()
    ratios = [ours / theirs for ours, theirs in times]
    own, other = (statistics.median(column) * 1000 for column in zip(*times, strict=True))
    spread = f"{min(ratios):.2f} to {max(ratios):.2f}"
    return pair.path, pair.peer, f"{own:,.0f}", f"{other:,.0f}", f"{statistics.median(ratios):.2f}", spread


def page(rows: list[tuple[str, ...]], missing: list[str], arguments: argparse.Namespace, load: float) -> str:
    """The page in Markdown."""
    slower = [f"{row[0]} ({row[1]}, {row[4]} times its CPU time)" for row in rows if float(row[4]) > 1]
    absent = f"\nNot installed in this run, and therefore not compared: {', '.join(missing)}.\n" if missing else ""
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"""# Speed beside other libraries

CPU time of each path beside a peer's in the same run; a ratio below 1 means that kernelsearch takes less. Path and peer
take turns {arguments.repetitions} times; the table has medians, and the range of the ratios over the repetitions.
`make bench` measures again and writes this page.

| path | peer | CPU ms | peer's CPU ms | ratio | range |
| --- | --- | --- | --- | --- | --- |
{table}

A peer is faster at: {"; ".join(slower) if slower else "nothing in this table"}.
{absent}
The collection is synthetic (`tools/data/synthetic.py`, {arguments.documents:,} documents). Machine: {platform.machine()},
{os.cpu_count()} cores, Python {platform.python_version()}, load average {load:.1f} when the run began: on a busy machine
times are longer and ranges wider than on an idle one. Searches are one by one with analysis, in one warm process; Anserini's
SimpleSearcher is what Pyserini calls, in the same Java, and its times include handing its hits to Python. Java still
compiles during the first rows, which lengthens both sides. bm25s has its own tokeniser and its default BM25. Bases are
fitted to a tolerance of 1e-2; the peers decompose tf·idf of the same postings, kernelsearch the BM25 kernel. Indexing is a
process of its own, with one thread, positions, document vectors and raw documents stored.

Term vectors against `get_document_vector` are in [the Lucene bridge](bridge.md), REST in [the service](serve.md), large
collections in [memory limits and Dask](scale.md).
"""


if __name__ == "__main__":
    main()
