"""The pipelines of an index: one cache for all who use it, and artefacts that are opened once and closed with the last user."""

from __future__ import annotations

import errno
import gc
import os
import resource
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import kernelsearch
from kernelsearch.integrations.hits import KernelReranker
from kernelsearch.integrations.pyserini import KernelSearcher
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO

QUERY = "dripping tap water"
FITTED = ("auto", "klsa", "mslm", "fusion", "rbm25")


@pytest.fixture(scope="module")
def fitted(demo_index, tmp_path_factory) -> Path:
    """A copy of the demo's index with every fitted state that methods open."""
    path = shutil.copytree(demo_index.path, tmp_path_factory.mktemp("pipelines") / "demo")
    index = kernelsearch.open(path)
    index.train("klsa", dims=20, neighbours="ivf")
    index.train("mslm")
    index.train("rbm25", clicks=DEMO / "clicks.jsonl")
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    index.train("fusion", topics=topics, qrels=qrels, features="first klsa mslm rm", learner="combsum")
    return path


@pytest.fixture
def no_collection() -> Iterator[None]:
    """Objects are freed by their reference counts alone."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def open_artefacts(path: Path) -> list[str]:
    """The artefacts that this process has mapped or open, one entry per map and descriptor, without the forward index."""
    maps = [line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines()]
    files = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    folder = str(kernelsearch.open(path).artefacts.resolve())
    return sorted(name for name in maps + files if name.startswith(folder) and "/forward/" not in name)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
@pytest.mark.parametrize("method", FITTED)
def test_pipelines_share_artefacts_and_free_them_at_once(fitted, no_collection, method):
    index = kernelsearch.open(fitted)
    index.search(QUERY, rerank=method)
    once = open_artefacts(fitted)
    for k1 in (1.1, 1.2, 1.3):
        index.search(QUERY, rerank=method, k1=k1)
    assert once == open_artefacts(fitted) != []
    index.forget_pipelines()
    assert open_artefacts(fitted) == []


def test_every_user_of_an_index_has_the_basis_that_was_fitted_last(fitted, tmp_path):
    path = shutil.copytree(fitted, tmp_path / "demo")
    searcher = KernelSearcher(str(path), rerank="klsa")
    reranker = KernelReranker(searcher.index, "klsa")
    first = KernelSearcher(str(path)).search(QUERY, k=50)

    def lists() -> list[list[tuple[str, float]]]:
        hits = [searcher.search(QUERY), reranker.rerank(QUERY, first)[:10], searcher.index.search(QUERY, rerank="klsa")]
        return [[(hit.docid, hit.score) for hit in found] for found in hits]

    before = lists()
    searcher.index.train("klsa", dims=3)
    after = lists()
    assert all(old != new for old, new in zip(before, after, strict=True))
    other = KernelSearcher(str(path), rerank="klsa")
    assert after[0] == [(hit.docid, hit.score) for hit in other.search(QUERY)]
    assert after[1] == [(hit.docid, hit.score) for hit in KernelReranker(str(path), "klsa").rerank(QUERY, first)[:10]]


def written(path: Path) -> dict[Path, int]:
    """When each file below a folder was written, without the notes of what was verified."""
    return {file: file.stat().st_mtime_ns for file in path.rglob("*") if file.is_file() and file.name != "verified.json"}


@pytest.mark.parametrize("method", FITTED)
def test_too_few_descriptors_are_no_damage(fitted, tmp_path, method):
    """What was opened is read in full or not at all, and nothing is made again, dropped or taken for another state."""
    path = shutil.copytree(fitted, tmp_path / "demo")
    kernelsearch.open(path).search(QUERY, rerank=method)  # the search for similar queries is made beside a log's new place
    index = kernelsearch.open(path)
    index.search(QUERY)
    _ = index.forward
    files = written(path)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    failures = 0
    try:
        for spare in range(60):
            os.close(free := os.dup(0))
            resource.setrlimit(resource.RLIMIT_NOFILE, (free + spare, limits[1]))
            try:
                index.pipeline(method)
                break
            except OSError as problem:
                assert problem.errno == errno.EMFILE
                failures += 1
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert failures
    assert written(path) == files
