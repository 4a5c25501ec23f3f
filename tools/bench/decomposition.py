"""The decomposition of kernel LSA beside gensim's and scikit-learn's, and how its cost grows with the collection.

    python -m tools.bench.decomposition --gensim PYTHON [--collections FOLDER] [--scratch FOLDER]

Every contender runs in a process of its own on the same memory-mapped float32 matrix of BM25 features, on one thread. Time is
the process's CPU time, memory the peak of what the solver holds beside the matrix (anonymous pages). Captured energy is
measured alike for all: |Φ·V|² / |Φ|² with V made orthonormal. gensim lives in an environment of its own, whose Python is named.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

THREADS = {name: "1" for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")}
os.environ.update(THREADS)

import numpy as np  # noqa: E402  the thread count must be set before numpy loads
from scipy import sparse  # noqa: E402

from tools import COLLECTIONS, ROOT, environment  # noqa: E402
from tools.bench.process_memory import process_memory  # noqa: E402

PARTS = ("real", "synthetic", "scaling")
# "N iterations" raises a peer's accuracy above its default (5 for scikit-learn, 2 for gensim), for equal energy.
CONTENDERS = (
    "kernelsearch",
    "kernelsearch, out of core",
    "sklearn randomized",
    "sklearn randomized, 10 iterations",
    "sklearn randomized, 20 iterations",
    "sklearn arpack",
    "gensim",
    "gensim, 10 iterations",
)


def load(folder: Path) -> sparse.csr_matrix:
    """The matrix that `save` has written to `folder`, memory-mapped."""
    parts = [np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("data", "indices", "indptr")]
    shape = tuple(json.loads((folder / "shape.json").read_text()))
    matrix = sparse.csr_matrix(shape, dtype=np.float32)
    matrix.data, matrix.indices, matrix.indptr = parts
    return matrix


def save(folder: Path, counts: sparse.csr_matrix) -> None:
    """Writes the BM25 features (k1 2, b .75) of term counts, a matrix of shape (documents, terms), to `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    total = counts.shape[0]
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    idf = np.log(1 + (total - df + 0.5) / (df + 0.5)).astype(np.float32)
    lengths = np.asarray(counts.sum(axis=1)).ravel()
    slack = (2 * (0.25 + 0.75 * lengths / lengths.mean())).astype(np.float32)
    data = counts.data.astype(np.float32)
    data /= data + np.repeat(slack, np.diff(counts.indptr))
    data *= np.sqrt(idf)[counts.indices]
    np.save(folder / "data.npy", data)
    np.save(folder / "indices.npy", counts.indices.astype(np.int32))
    np.save(folder / "indptr.npy", counts.indptr.astype(np.int32))
    (folder / "shape.json").write_text(json.dumps(counts.shape))


def real_text(collections: Path, documents: int, words: int = 60) -> sparse.csr_matrix:
    """Term counts of `documents` passages of `words` words of real text, cut from all collections in the folder `collections`.

    Returns a matrix of shape (passages, terms); fewer passages where there is too little text.
    """
    passages: list[list[str]] = []
    for file in sorted([*collections.glob("*/corpus.jsonl"), *collections.glob("*/data.jsonl")]):
        with open(file, encoding="utf-8") as stream:
            for line in stream:
                record = json.loads(line)
                tokens = re.findall(r"[^\W_]+", str(record.get("contents") or record.get("text") or "").lower())
                passages += [tokens[start : start + words] for start in range(0, len(tokens), words)]
    if len(passages) < documents:
        print(f"only {len(passages)} passages of real text at {collections}", file=sys.stderr)
    vocabulary: dict[str, int] = {}
    indptr, indices = [0], []
    for tokens in passages[:documents]:
        indices += [vocabulary.setdefault(token, len(vocabulary)) for token in tokens]
        indptr.append(len(indices))
    matrix = sparse.csr_matrix((np.ones(len(indices), np.float32), indices, indptr), shape=(len(indptr) - 1, len(vocabulary)))
    matrix.sum_duplicates()
    return matrix


def synthetic(documents: int) -> sparse.csr_matrix:
    """Term counts of so many synthetic `documents`, shape (documents, terms)."""
    from tools.data.synthetic import Generator

    return Generator(documents).matrix()


class Peak(threading.Thread):
    """Samples this process's anonymous memory, in bytes."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_bytes = self.highest = self.now()
        self._over = threading.Event()

    @staticmethod
    def now() -> int:
        """The anonymous memory of this process."""
        return process_memory("RssAnon")

    def run(self) -> None:
        """Takes samples until `end` is called."""
        while not self._over.wait(0.02):
            self.highest = max(self.highest, self.now())

    def end(self) -> int:
        """Stops; returns by how much the highest sample exceeds the first."""
        self._over.set()
        return max(self.highest, self.now()) - self.start_bytes


def solve(contender: str, matrix: sparse.csr_matrix, dims: int) -> np.ndarray:
    """The right singular vectors of `matrix` by a `contender` of CONTENDERS, shape (features, dims)."""
    iterations = int(result[1]) if (result := re.search(r"(\d+) iterations", contender)) else None
    if contender.startswith("kernelsearch"):
        from kernelsearch.kernels.spectral import RowBlocks, decompose

        memory = 0.0 if contender.endswith("core") else 1e12
        blocks = RowBlocks.of(matrix, memory=memory)
        return decompose(blocks, dims, solver="randomised").right
    if contender.startswith("sklearn"):
        from sklearn.decomposition import TruncatedSVD

        algorithm = contender.split()[1].rstrip(",")
        return TruncatedSVD(dims, algorithm=algorithm, n_iter=iterations or 5, random_state=0).fit(matrix).components_.T
    from gensim.matutils import Sparse2Corpus
    from gensim.models import LsiModel

    words = {number: str(number) for number in range(matrix.shape[1])}
    corpus = Sparse2Corpus(matrix, documents_columns=False)
    return LsiModel(corpus, id2word=words, num_topics=dims, power_iters=iterations or 2, random_seed=0).projection.u


def work(contender: str, folder: Path, dims: int) -> dict[str, float]:
    """The figures of one contender on the matrix in `folder`: CPU and wall seconds, peak memory in bytes, captured energy.

    `dims` is the number of dimensions.
    """
    matrix = load(folder)
    solve(contender, matrix[:500, :].copy()[:, :400], 5)  # imports and first calls are not what is measured
    peak = Peak()
    peak.start()
    wall, cpu = time.perf_counter(), time.process_time()
    right = solve(contender, matrix, dims)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    memory = peak.end()
    right = np.linalg.qr(np.asarray(right, dtype=np.float32))[0]
    captured = total = 0.0
    for start in range(0, matrix.shape[0], 20_000):
        block = matrix[start : start + 20_000]
        captured += float(np.square(block @ right, dtype=np.float64).sum())
        total += float(np.square(block.data, dtype=np.float64).sum())
    return {"cpu": cpu, "wall": wall, "memory": memory, "energy": captured / total}


def limit_cpu(seconds: int) -> None:
    """Ends this process after so many `seconds` of CPU time, whatever else the machine does."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def compare(folder: Path, dims: int, pythons: dict[str, str], limit: int, contenders: tuple[str, ...]) -> None:
    """Prints one table: all contenders on one matrix.

    Parameters
    ----------
    folder : the folder of the matrix
    dims : number of dimensions
    pythons : the interpreter of a library by its name; an empty one leaves its contenders out, the default is this
        interpreter
    limit : seconds of CPU time that a contender may take
    contenders : which to run, of CONTENDERS
    """
    matrix = load(folder)
    print(
        f"\n{folder.name}: {matrix.shape[0]:,} documents, {matrix.shape[1]:,} features, {matrix.nnz:,} postings; "
        f"{dims} dimensions\n"
    )
    print("| | CPU s | wall s | memory MB | captured energy |\n| --- | --- | --- | --- | --- |", flush=True)
    for contender in contenders:
        python = pythons.get(contender.split()[0].rstrip(","), sys.executable)
        if not python:
            continue
        command = [
            python,
            "-m",
            "tools.bench.decomposition",
            "--worker",
            contender,
            "--matrix",
            str(folder),
            "--dims",
            str(dims),
        ]
        variables = environment(**THREADS)
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, env=variables, check=True, preexec_fn=lambda: limit_cpu(limit)
            )
            figures = json.loads(done.stdout.splitlines()[-1])
            row = f"{figures['cpu']:.1f} | {figures['wall']:.1f} | {figures['memory'] / 1e6:.0f} | {figures['energy']:.6f}"
        except subprocess.CalledProcessError as problem:
            ended = problem.returncode in (-signal.SIGXCPU, -signal.SIGKILL)
            row = (
                f"not done in {limit} s of CPU time | | | "
                if ended
                else f"failed: {problem.stderr.splitlines()[-1][:80]} | | | "
            )
        print(f"| {contender} | {row} |", flush=True)


def scaling(scratch: Path, sizes: tuple[int, ...], dims: int) -> None:
    """Prints how the cost of the decomposition into `dims` dimensions grows with the postings of collections of these `sizes`.

    Matrices are made in the folder `scratch`.
    """
    print(f"\nGrowth, {dims} dimensions\n\n| documents | postings | CPU s | CPU s per million postings | memory MB |")
    print("| --- | --- | --- | --- | --- |")
    for documents in sizes:
        folder = made(scratch, "synthetic", documents, lambda documents=documents: synthetic(documents))
        command = [
            sys.executable,
            "-m",
            "tools.bench.decomposition",
            "--worker",
            "kernelsearch",
            "--matrix",
            str(folder),
            "--dims",
            str(dims),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment())
        figures, postings = json.loads(done.stdout.splitlines()[-1]), load(folder).nnz
        microseconds = figures["cpu"] / postings * 1e6
        print(
            f"| {documents:,} | {postings:,} | {figures['cpu']:.1f} | {microseconds:.2f} | {figures['memory'] / 1e6:.0f} |",
            flush=True,
        )


def made(scratch: Path, name: str, documents: int, make: Any) -> Path:
    """The folder of the matrix `name` of so many `documents` below `scratch`.

    Where it does not exist, it is written from the term counts that `make` returns.
    """
    folder = scratch / f"{name}-{documents}"
    if not (folder / "shape.json").exists():
        save(folder, make())
    return folder


def main() -> None:
    """Runs the parts that are asked for; with --worker, is the process of one contender."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gensim", default="", help="a Python that has gensim; left out if not named")
    parser.add_argument("--collections", type=Path, default=COLLECTIONS, help="folder of the test collections")
    parser.add_argument("--scratch", type=Path, default=ROOT / "indexes" / "bench-klsa", help="folder for indexes and results")
    parser.add_argument("--parts", default=",".join(PARTS), help="what to run")
    parser.add_argument("--dims", type=int, default=0, help="dimensions; default: 100 and 300")
    parser.add_argument("--documents", type=int, default=500_000, help="synthetic documents")
    parser.add_argument("--limit", type=int, default=1800, help="seconds of CPU time that a contender may take")
    parser.add_argument("--contenders", default=";".join(CONTENDERS), help="which to run, with ; between")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--matrix", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.worker:
        print(json.dumps(work(arguments.worker, arguments.matrix, arguments.dims)))
        return
    parts, all_dims = arguments.parts.split(","), (arguments.dims,) if arguments.dims else (100, 300)
    contenders = tuple(name.strip() for name in arguments.contenders.split(";"))
    folders = []
    if "real" in parts:
        folders.append(made(arguments.scratch, "real-text", 50_000, lambda: real_text(arguments.collections, 50_000)))
    if "synthetic" in parts:
        folders.append(made(arguments.scratch, "synthetic", arguments.documents, lambda: synthetic(arguments.documents)))
    for folder in folders:
        for dims in all_dims:
            compare(folder, dims, {"gensim": arguments.gensim}, arguments.limit, contenders)
    if "scaling" in parts:
        scaling(arguments.scratch, tuple(arguments.documents // part for part in (8, 4, 2, 1)), all_dims[0])


if __name__ == "__main__":
    main()
