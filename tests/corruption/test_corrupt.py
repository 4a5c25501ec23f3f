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
from tests.conftest import DEMO, TINY, write_jsonl

CASES = int(os.environ.get("KERNELSEARCH_CORRUPTIONS", "12"))
QUERIES = ("dripping tap", "frozen pipes", "paint a wooden door")
#: Changed by design: SQLite has no checksums, and a lock file has no content.
LEFT_OUT = (".db", "write.lock", "verified.json")


def train_all(path: Path) -> None:
    index = kernelsearch.open(path)
    train_verb.main(["--index", str(path), "--rerank", "klsa", "--klsa.dims", "8"])
    train_verb.main(["--index", str(path), "--rerank", "mslm"])
    topics, qrels = dict(list(read_topics(DEMO / "topics.tsv").items())[:6]), read_qrels(DEMO / "qrels.txt")
    options = {"features": "first rm3", "sources": "none", "learner": "simlistmkl", "depth": 30}
    FusionReranker.method.fit(index, TrainingData(topics=topics, qrels=qrels), **options)


def answers(path: Path) -> list[tuple[str, float]]:
    """The results of every method, from an index that is opened again."""
    index = kernelsearch.open(path)
    found = []
    try:
        for method in (None, "klsa", "mslm", "pert", "fusion"):
            for query in QUERIES:
                found += [(hit.docid, hit.score) for hit in index.search(query, rerank=method, k=20)]
        index.field("title").term_frequencies(np.arange(5), index.field("title").term_ids(["tap"]))
    finally:
        if index._lucene is not None:
            index._lucene.close()
    return found


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
