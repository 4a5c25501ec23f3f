"""Vectors beside FAISS, Pyserini's FaissSearcher and HybridSearcher, and sentence-transformers."""

from __future__ import annotations

import json

import faiss
import numpy as np

from kernelsearch.encoders.onnx import OnnxEncoder
from tools.bench.process_memory import process_memory
from tools.bench.speed.collection import VECTORS, Collection
from tools.bench.speed.measuring import Bench, Pair, Work, clock_time, cpu_time
from tools.bench.speed.peers import HITS, TEXTS


def run(bench: Bench, collections: list[Collection]) -> None:
    """Measures into `bench` scores, nearest documents and hybrids on all `collections`; encoding on the first, smallest one."""
    faiss.omp_set_num_threads(1)
    for collection in collections:
        _search(bench, collection, warm_up=2 if collection is collections[0] else 1)
    _encode(bench, collections[0])


def _search(bench: Bench, collection: Collection, warm_up: int) -> None:
    index, size, folder = collection.index, collection.documents, collection.folder
    queries = index.lucene.queries(collection.texts, [str(number) for number in range(len(collection.texts))])
    scale = 1000 / len(queries)
    unit = "CPU ms per query"
    options = {"unit": unit, "warm_up": warm_up}
    before = process_memory("VmRSS")
    vectors = index.vectors(VECTORS)
    vectors.nearest(queries[:1], HITS)
    memory = (process_memory("VmRSS") - before) / 1e6
    flat = faiss.read_index(str(collection.faiss_folder / "index"))
    asked = [vector[None] for vector in vectors.queries.find(queries) if vector is not None]
    candidates = np.resize(np.random.default_rng(0).permutation(size), HITS)

    def search(method: str, **settings: object) -> Work:
        ready = index.pipeline({method: {"vectors": VECTORS, **settings}}, hits=HITS)
        return lambda: [ready.search([query]) for query in queries]

    def task(name: str):
        return bench.pyserini.task(name, folder, scale)

    scores = cpu_time(lambda: [vectors.scores(query, candidates) for query in queries], scale)
    bench.add(Pair(f"dense scores of {HITS:,} candidates", "", size, scores, unit=unit, warm_up=warm_up))
    nearest = cpu_time(lambda: [vectors.nearest([query], HITS) for query in queries], scale)
    alone = cpu_time(lambda: [flat.search(vector, HITS) for vector in asked], scale)
    bench.compare(f"nearest {HITS:,} documents", "FAISS IndexFlatIP", size, nearest, alone, **options)
    searcher = task("faiss_searcher")
    bench.compare(
        "dense, as a search",
        "Pyserini's FaissSearcher",
        size,
        cpu_time(search("dense", retrieve=HITS), scale),
        searcher,
        **options,
    )
    if searcher is not None:
        theirs = float((folder / "faiss_memory.txt").read_text()) / 1e6
        bench.compare(
            "memory of opened vectors", "Pyserini's FaissSearcher", size, lambda: memory, lambda: theirs, unit="MB", once=True
        )
    hybrid = cpu_time(search("auto"), scale)
    words = cpu_time(search("auto", vectors="none"), scale)
    bench.compare("auto with vectors", "Pyserini's HybridSearcher", size, hybrid, task("hybrid_searcher"), **options)
    bench.compare("auto with vectors", "auto, words alone", size, hybrid, words, **options)


def _encode(bench: Bench, collection: Collection) -> None:
    if bench.pyserini.task("encoder_model", collection.folder) is None:
        return
    theirs = bench.pyserini.task("sentence_transformers", collection.folder, 1000 / TEXTS, clock=True)
    if theirs is None:
        return
    encoder = OnnxEncoder(collection.folder / "model")
    with (collection.corpus / "corpus.jsonl").open(encoding="utf-8") as stream:
        texts = [json.loads(line)["contents"] for line, _ in zip(stream, range(TEXTS), strict=False)]
    expected = np.array(json.loads((collection.folder / "encoded.json").read_text()))
    if not np.allclose(encoder.documents(texts[: len(expected)]), expected, atol=1e-3):
        raise SystemExit("encoding: the vectors differ from sentence-transformers'")
    ours = clock_time(lambda: encoder.documents(texts), 1000 / TEXTS)
    bench.compare(
        *("encoding, a BERT of MiniLM's shape", "sentence-transformers", collection.documents, ours, theirs),
        unit="ms per document by the clock",
        warm_up=1,
    )
