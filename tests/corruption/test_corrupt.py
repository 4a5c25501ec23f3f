"""Damaged files: every file of an index with flipped bits, cut short, zeroed, or taken from another index.

Allowed are two outcomes only: the damage is refused by name, or it has no effect. KERNELSEARCH_CORRUPTIONS sets the number of
cases (`make test-corrupt` runs more than the default).
"""

import os
import random
import shutil
from pathlib import Path

import numpy as np
import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch import train as train_verb
from kernelsearch.core.errors import KernelSearchError
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.fusion.reranker import FusionReranker
from kernelsearch.trec.qrels import read_qrels
from kernelsearch.trec.topics import read_topics
from kernelsearch.vectors import __main__ as vectors_verb
from tests.conftest import DEMO, TINY, write_jsonl

CASES = int(os.environ.get("KERNELSEARCH_CORRUPTIONS", "12"))
QUERIES = ("dripping tap", "frozen pipes", "paint a wooden door")
#: Changed by design: SQLite has no checksums, and a lock file has no content.
LEFT_OUT = (".db", "write.lock", "verified.json")


def add_vectors(path: Path) -> None:
    """Random vectors of the documents, with a graph of neighbours, and of the queries, in a file beside the index."""
    random_vectors = np.random.default_rng(0)
    docids = kernelsearch.open(path).forward.docids
    ids = [docids[row] for row in range(len(docids))]
    np.savez(path.parent / "v.npz", ids=np.array(ids), vectors=random_vectors.normal(size=(len(ids), 8)))
    np.savez(path.parent / "queries.npz", ids=np.array(QUERIES), vectors=random_vectors.normal(size=(len(QUERIES), 8)))
    for name, kind in (("graph", "hnsw"), ("lists", "ivf")):
        flags = ["--index", str(path), "--name", name, "--input", str(path.parent / "v.npz"), "--neighbours", kind]
        vectors_verb.main(flags)


def train_all(path: Path) -> None:
    add_vectors(path)
    index = kernelsearch.open(path)
    train_verb.main(["--index", str(path), "--rerank", "rbm25", "--clicks", str(DEMO / "clicks.jsonl")])
    train_verb.main(["--index", str(path), "--rerank", "klsa", "--klsa.dims", "8"])
    train_verb.main(["--index", str(path), "--rerank", "mslm"])
    topics, qrels = dict(list(read_topics(DEMO / "topics.tsv").items())[:6]), read_qrels(DEMO / "qrels.txt")
    options = {"features": "first rm3", "sources": "none", "learner": "simlistmkl", "depth": 30}
    FusionReranker.method.fit(index, TrainingData(topics=topics, qrels=qrels), **options)


def answers(path: Path) -> list[tuple[str, float]]:
    """The results of every method, from an index that is opened again."""
    result = []
    opened = []
    try:
        for name in ("graph", "lists"):
            vectors = {"name": name, "queries": str(path.parent / "queries.npz")}
            opened.append(index := kernelsearch.open(path, vectors=vectors))
            for query in QUERIES:
                result += [(hit.docid, hit.score) for hit in index.search(query, rerank="dense", k=20, dense_retrieve=20)]
        for method in (None, "klsa", "mslm", "pert", "fusion", "rbm25"):
            for query in QUERIES:
                result += [(hit.docid, hit.score) for hit in index.search(query, rerank=method, k=20)]
        index.field("title").term_frequencies(np.arange(5), index.field("title").term_ids(["tap"]))
    finally:
        for index in opened:
            if index._lucene is not None:
                index._lucene.close()
    return result


@pytest.fixture(scope="module")
def indexes(demo_index, tmp_path_factory):
    folder = tmp_path_factory.mktemp("corrupt")
    path = shutil.copytree(demo_index.path, folder / "index")
    train_all(path)
    other = folder / "other"
    index_verb.main(["--input", str(write_jsonl(folder / "tiny.jsonl", TINY)), "--index", str(other)])
    expected = answers(path)
    yield path, other, expected
    assert answers(path) == expected  # every file is whole again, so no case was refused for the damage of another


def files(path: Path) -> list[Path]:
    return sorted(
        file for file in path.rglob("*") if file.is_file() and not file.name.endswith(LEFT_OUT) and file.stat().st_size
    )


def damaged(data: bytes, how: str, chance: random.Random, foreign: bytes | None) -> bytes:
    place = chance.randrange(len(data))
    if how == "flip":
        return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]
    if how == "noise":
        half = len(data) // 2
        return data[:half] + bytes(byte ^ chance.randrange(8) for byte in data[half:])
    if how == "cut":
        return data[:place]
    if how == "zero":
        end = min(len(data), place + chance.choice((1, 8, 512)))
        return data[:place] + bytes(end - place) + data[end:]
    if how == "zero all":
        return bytes(len(data))
    return foreign if foreign is not None else data[::-1]


@pytest.mark.parametrize("number", range(CASES))
def test_damage_is_refused_by_name_or_has_no_effect(indexes, number):
    path, other, expected = indexes
    chance = random.Random(number)
    everything = files(path)
    random.Random(0).shuffle(everything)
    file = everything[number % len(everything)]
    how = chance.choice(("flip", "noise", "noise", "cut", "zero", "zero all", "swap"))
    twin = other / file.relative_to(path)
    data = file.read_bytes()
    file.write_bytes(damaged(data, how, chance, twin.read_bytes() if twin.is_file() else None))
    try:
        assert answers(path) == expected, f"{file.relative_to(path)}: {how}: other results"
    except KernelSearchError as problem:
        assert path.name in str(problem)
        assert "Traceback" not in str(problem)
    finally:
        file.write_bytes(data)
