"""The Dask engine on a cluster of two worker processes: the same results as in one process, also when workers die."""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from kernelsearch import index, search
from kernelsearch.api.topics import Topic, run_topics
from kernelsearch.core.errors import InputError
from kernelsearch.core.execution import LocalEngine
from kernelsearch.kernels.asymmetric import BM25
from kernelsearch.kernels.semantic.graph import cooccurrence_graph
from kernelsearch.rerankers.base import TrainingData
from kernelsearch.rerankers.fusion.reranker import FusionReranker
from kernelsearch.rerankers.klsa.basis import fit_basis
from kernelsearch.trec import read_qrels, read_topics

from ..conftest import DEMO, ROOT

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster():
    pytest.importorskip("distributed")
    from kernelsearch.engines.dask import DaskEngine

    with DaskEngine(workers=2) as engine:
        yield engine


def kill_one(engine) -> None:
    """SIGKILL to a worker process that is at work, or else to any."""
    pids = engine.client.run(os.getpid)
    busy = [address for address, tasks in engine.client.processing().items() if tasks]
    os.kill(pids[(busy or list(pids))[0]], signal.SIGKILL)


@pytest.fixture(scope="module")
def topics() -> list[Topic]:
    return [Topic(qid, text) for qid, text in read_topics(DEMO / "topics.tsv").items()]


def test_a_run_is_byte_identical_and_so_is_its_recipe(cluster, demo_index, tmp_path):
    address = cluster.client.scheduler.address
    flags = ["--index", str(demo_index.path), "--topics", str(DEMO / "topics.tsv"), "--rerank", "pert", "--batch-size", "5"]
    search.main([*flags, "--output", str(tmp_path / "local.txt")])
    search.main([*flags, "--output", str(tmp_path / "dask.txt"), "--engine", address])
    assert (tmp_path / "dask.txt").read_bytes() == (tmp_path / "local.txt").read_bytes()
    assert "engine" not in (tmp_path / "dask.txt.toml").read_text(encoding="utf-8")
    first = ["--run", str(tmp_path / "local.txt"), "--rerank", "klsa", "--hits", "50"]
    search.main([*flags, *first, "--output", str(tmp_path / "local2.txt")])
    search.main([*flags, *first, "--output", str(tmp_path / "dask2.txt"), "--engine", address])
    assert (tmp_path / "dask2.txt").read_bytes() == (tmp_path / "local2.txt").read_bytes()


def listening_addresses(pids):
    """The addresses on which processes listen, by the kernel's tables of sockets, in hexadecimal form."""
    inodes = set()
    for pid in pids:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                target = os.readlink(entry)
                if target.startswith("socket:["):
                    inodes.add(target[8:-1])
    addresses = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        for line in Path(table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                addresses.add(fields[1].partition(":")[0])
    return addresses


def test_a_cluster_of_this_machine_listens_on_loopback_only(cluster):
    """Before the tests of trees: xgboost listens on all addresses, and in a worker whose training was given up it may go on."""
    processes = {os.getpid(), *cluster.client.run(os.getpid).values()}
    assert listening_addresses(processes) == {"0100007F"}  # 127.0.0.1


def test_a_worker_killed_in_the_middle_of_a_batch_changes_nothing(cluster, demo_index, topics):
    pipeline = demo_index.pipeline(["pert"])
    topics = [*topics, Topic("unknown", "unheardof")]
    expected = list(run_topics(pipeline, topics, batch_size=2))
    result = []
    for number, ranked in enumerate(run_topics(pipeline, topics, engine=cluster, batch_size=2)):
        result.append(ranked)
        if number == 4:
            kill_one(cluster)
    assert [(ranked.qid, ranked.docids, ranked.scores, ranked.candidates.fallbacks) for ranked in result] == [
        (ranked.qid, ranked.docids, ranked.scores, ranked.candidates.fallbacks) for ranked in expected
    ]
    assert result[-1].candidates.fallbacks == (("pert", "no document matches the query"),)


def test_the_distributed_basis_is_that_of_the_same_parts_and_spans_the_single_one(cluster, demo_index, tmp_path, monkeypatch):
    from scipy.linalg import subspace_angles

    monkeypatch.setattr(import_module("kernelsearch.kernels.spectral.decompose"), "ARPACK_LIMIT", 0)
    forward, options = demo_index.forward, {"dims": 60}
    single = fit_basis(tmp_path / "single", forward, BM25(), **options)
    local = fit_basis(tmp_path / "local", forward, BM25(), engine=LocalEngine(), parts=6, **options)
    killed = []

    def strike(products: int, residual: float) -> None:
        if products > 80 and not killed:
            killed.append(products)
            kill_one(cluster)

    struck = fit_basis(tmp_path / "struck", forward, BM25(), engine=cluster, parts=6, progress=strike, **options)
    assert killed
    assert np.array_equal(struck.rows, local.rows)
    assert np.array_equal(struck.loadings, local.loadings)
    leading = 40  # the spectrum falls steadily here; at the cut itself neighbouring directions may trade places
    angles = subspace_angles(np.asarray(single.rows[:, :leading], float), np.asarray(struck.rows[:, :leading], float))
    assert angles.max() < 1e-3


def test_a_graph_of_related_words_is_the_same(cluster, demo_index):
    local, distributed = (
        cooccurrence_graph(demo_index.forward, max_pairs=20_000, mapper=partial(engine.map, label="graph"))
        for engine in (LocalEngine(), cluster)
    )
    assert local.edges > 100
    assert np.array_equal(local.indices, distributed.indices)
    assert np.array_equal(local.distances, distributed.distances)


def files_below(folder) -> dict[str, bytes]:
    # verified.json holds the times at which files were compared with their checksums.
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.name != "verified.json"]
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def kill_when(engine, prefix: str, wait: float = 0.0) -> threading.Thread:
    """Kills a worker as soon as it works on a task of that name, or a little later."""

    def busy() -> list[str]:
        result = engine.client.processing().items()
        return [address for address, tasks in result if any(str(task).startswith(f"{prefix}-") for task in tasks)]

    def strike() -> None:
        while not (workers := busy()):
            time.sleep(0.02)
        time.sleep(wait)
        os.kill(engine.client.run(os.getpid)[workers[0]], signal.SIGKILL)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    return thread


def test_shards_that_workers_build_and_export_are_those_of_one_process(cluster, tmp_path):
    """One worker dies while it indexes a shard, and one while it exports; Lucene's own files carry random ids."""
    flags = ["--input", str(DEMO / "corpus.jsonl"), "--shards", "3", "--memory-limit", "2G"]
    index.main([*flags, "--index", str(tmp_path / "local")])
    strikes = [kill_when(cluster, name) for name in ("index", "export")]
    index.main([*flags, "--index", str(tmp_path / "dask"), "--engine", cluster.client.scheduler.address])
    for strike in strikes:
        strike.join(timeout=120)
        assert not strike.is_alive()
    assert sorted(path.name for path in (tmp_path / "dask").iterdir()) == [
        "kernelsearch",
        "shard-0",
        "shard-1",
        "shard-2",
        "shards.json",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dask", "local"]
    local, distributed = (files_below(tmp_path / name / "kernelsearch" / "forward") for name in ("local", "dask"))
    assert local.keys() == distributed.keys() and "contents/indices.npy" in local
    assert [
        name for name in local if local[name] != distributed[name] and not name.endswith(("meta.json", "verified.json"))
    ] == []
    run = ["--topics", str(DEMO / "topics.tsv"), "--qld"]
    for name in ("local", "dask"):
        search.main(["--index", str(tmp_path / name), *run, "--output", str(tmp_path / f"{name}.txt")])
    assert (tmp_path / "dask.txt").read_bytes() == (tmp_path / "local.txt").read_bytes()


def test_features_made_by_workers_train_the_same_fusion(cluster, demo_index, tmp_path):
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    options = {"features": "first bm25:field=title rm3 votes pert", "sources": "rm3 votes", "learner": "net", "depth": 50}
    strike = kill_when(cluster, "table")
    for engine in (LocalEngine(), cluster):
        data = TrainingData(topics=topics, qrels=qrels, output=tmp_path / engine.name, engine=engine)
        FusionReranker.method.fit(demo_index, data, **options)
    strike.join(timeout=120)
    assert not strike.is_alive()
    assert files_below(tmp_path / "dask") == files_below(tmp_path / "local")


def test_an_error_of_ours_comes_back_as_it_is(cluster, demo_index):
    topics = [Topic("1", "tap", [("no such document", 1.0)])]
    with pytest.raises(InputError, match="no such document"):
        list(run_topics(demo_index.pipeline(["pert"]), topics, engine=cluster))


def test_a_scheduler_that_cannot_be_reached_is_one_line(demo_index, tmp_path):
    command = [sys.executable, "-m", "kernelsearch.search", "--index", str(demo_index.path), "--output", str(tmp_path / "x")]
    flags = ["--topics", str(DEMO / "topics.tsv"), "--engine", "tcp://127.0.0.1:9"]
    start = time.monotonic()
    done = subprocess.run([*command, *flags], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--engine: tcp://127.0.0.1:9: no Dask scheduler answers there" in done.stderr
    assert time.monotonic() - start < 100
    assert not (tmp_path / "x").exists()
