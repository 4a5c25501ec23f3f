"""What is done once: indexing, exporting term vectors, fitting a basis, and the start of a process."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from sklearn.decomposition import TruncatedSVD

from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.lucene.index import CONTENTS
from kernelsearch.lucene.jvm import find_jar, find_java
from kernelsearch.lucene.postings import AT_ONCE, LucenePostings
from kernelsearch.rerankers.klsa.basis import fit_basis
from tools import environment
from tools.bench.speed.collection import DIMS, Collection, command
from tools.bench.speed.measuring import Bench, Work, cpu_time

#: Documents of the comparison with gensim.
SMALL = 2000


def run(bench: Bench, collections: list[Collection]) -> None:
    """Measures `collections` into `bench`; indexing and the basis are repeated on the first, smallest one only."""
    for collection in collections:
        smallest = collection is collections[0]
        _indexing(bench, collection)
        _export(bench, collection)
        _basis(bench, collection, once=not smallest)
    _first_result(bench, collections[0])


def _indexing(bench: Bench, collection: Collection) -> None:
    target = collection.folder / "built"

    def fresh(build: Callable[[Path, Path], None]) -> Work:
        def work() -> None:
            shutil.rmtree(target, ignore_errors=True)
            build(collection.corpus, target)

        return work

    bench.compare(
        *("index, with forward index", "Anserini's IndexCollection, without", collection.documents),
        *(cpu_time(fresh(build_index)), cpu_time(fresh(build_with_anserini))),
        warm_up=1,  # the first build records the classes of its archive
    )
    shutil.rmtree(target, ignore_errors=True)


def build_index(corpus: Path, target: Path) -> None:
    """Runs `kernelsearch.index` with one thread; `corpus` is a folder with corpus.jsonl, `target` the folder of the index."""
    command("kernelsearch.index", "--input", corpus / "corpus.jsonl", "--index", target, "--threads", "1")


def build_with_anserini(corpus: Path, target: Path) -> None:
    """Runs IndexCollection, as `python -m pyserini.index.lucene` does, with the same things stored and one segment.

    `corpus` is a folder with corpus.jsonl, `target` the folder of the index.
    """
    java = [find_java() / "bin" / "java", "-cp", find_jar(), "io.anserini.index.IndexCollection"]
    source = ["-collection", "JsonCollection", "-generator", "DefaultLuceneDocumentGenerator", "-input", corpus]
    stored = ["-storePositions", "-storeDocvectors", "-storeContents", "-storeRaw", "-optimize"]
    words = [str(word) for word in (*java, *source, "-index", target, "-threads", "1", *stored)]
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def _export(bench: Bench, collection: Collection) -> None:
    reader = collection.index.lucene.reader
    postings = len(collection.index.forward.indices)

    def export() -> object:
        source = LucenePostings(reader, CONTENTS, at_once=AT_ONCE, positions=False)
        scan = source.scan()
        return source.docids(0, len(scan.lengths)), source.rows(0, len(scan.lengths), scan, False)

    vectors = bench.pyserini.task("document_vectors", collection.folder, 1)
    if vectors is not None:
        sample = int((collection.folder / "postings.txt").read_text())
        bench.compare(
            *("terms and frequencies of all documents", "Pyserini's get_document_vector", collection.documents),
            cpu_time(export, 1e6 / postings * 1000),
            lambda: vectors() / sample * 1e9,
            unit="CPU µs per 1,000 postings",
        )


def _basis(bench: Bench, collection: Collection, once: bool) -> None:
    matrix, ours = collection.matrix, _fit(collection)

    def sklearn() -> object:
        return TruncatedSVD(DIMS, algorithm="arpack", tol=1e-2).fit(matrix)

    path, size = f"latent basis, {DIMS} dimensions", collection.documents
    bench.compare(path, "scikit-learn's TruncatedSVD (ARPACK)", size, cpu_time(ours), cpu_time(sklearn), warm_up=1, once=once)
    if not once:
        _small_basis(bench, path)


def _small_basis(bench: Bench, path: str) -> None:
    """gensim takes ten times longer: a smaller collection, so that it can be repeated."""
    small = Collection(bench.folder / "small", min(SMALL, bench.sizes[0]))
    documents = small.matrix.shape[0]
    gensim = bench.libraries.task("gensim", small.folder)
    bench.compare(path, "gensim's LsiModel", documents, cpu_time(_fit(small)), gensim, warm_up=0)


def _fit(collection: Collection) -> Work:
    """Fits a basis of the collection."""
    folder, forward = collection.folder / "basis", collection.index.forward

    def work() -> object:
        shutil.rmtree(folder, ignore_errors=True)
        return fit_basis(folder, forward, BM25(k1=2.0, b=0.75), dims=DIMS)

    return work


def _first_result(bench: Bench, collection: Collection) -> None:
    """From the start of a process to a first result; the class data archive exists after the runs that are not counted."""
    path, query = collection.folder / "index", collection.texts[0]

    def theirs() -> None:
        words = [
            bench.pyserini.python,
            "-m",
            "tools.bench.probes",
            "pyserini",
            "first",
            path,
            collection.folder / "queries.json",
        ]
        subprocess.run([str(word) for word in words], check=True, capture_output=True, env=environment())

    def ours() -> None:
        words = [sys.executable, "-m", "kernelsearch.search", "--index", str(path), "--query", query]
        subprocess.run(words, check=True, capture_output=True, env=environment())

    peer = cpu_time(theirs) if bench.pyserini.python.exists() else None
    if peer is None:
        bench.pyserini.missing["first result"] = f"{bench.pyserini.python} does not exist"
    bench.compare(
        "search --query, from a cold process",
        "Pyserini's LuceneSearcher",
        collection.documents,
        cpu_time(ours),
        peer,
        warm_up=1,
    )
