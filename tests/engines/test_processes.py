"""The engine of several processes: the results of one process, whatever happens to a worker, and no worker is left behind."""

import logging
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from kernelsearch import search
from kernelsearch.api.topics import Topic, _BatchSettings, _Lists, _run_batch, run_topics
from kernelsearch.clicks.importing import import_log
from kernelsearch.core.errors import IndexReplaced, InputError
from kernelsearch.core.execution import LocalEngine
from kernelsearch.core.types import Candidates
from kernelsearch.engines import processes
from kernelsearch.engines.processes import ProcessEngine
from kernelsearch.lucene import jvm
from kernelsearch.rerankers.pert.reranker import PerturbationReranker
from kernelsearch.trec import read_topics

from ..conftest import DEMO, ROOT, heeding_interrupts

HERE = os.getpid()


@pytest.fixture(autouse=True)
def _always_worth_it(monkeypatch):
    monkeypatch.setattr(processes, "WORTH", 0.0)
    monkeypatch.setattr(processes, "TELLING", 0.0)
    monkeypatch.setattr(logging.getLogger("kernelsearch"), "propagate", True)  # whatever a test before has set


@pytest.fixture(scope="module")
def engine():
    """One with a worker that executes tasks already."""
    with ProcessEngine(2) as engine:
        wait_for_worker(engine)
        yield engine


def wait_for_worker(engine):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(processes, "WORTH", 0.0)
        patch.setattr(processes, "TELLING", 0.0)
        for _ in range(100):
            if any(pid != HERE for _, pid in engine.map_shared(slowly, range(20), None, label="wait")):
                return
    raise AssertionError("the worker executes nothing")


def slowly(item, shared):
    time.sleep(0.01)
    return item, os.getpid()


def java_options(item, shared):
    time.sleep(0.01)
    return "-XX:TieredStopAtLevel=1" in jvm.jvm_options(), os.getpid()


def with_shared(item, shared):
    return item * shared


def fails_at_five(item, shared):
    if item >= 5:
        raise InputError(f"item {item} of {shared}")
    return item


def gets_signal_elsewhere(item, shared):
    here, number = shared
    time.sleep(0.01)
    if os.getpid() != here:
        os.kill(os.getpid(), number)
    return item


def fails_elsewhere(item, here):
    if os.getpid() != here:
        raise RuntimeError("only here")
    return item


def warns(item, shared):
    time.sleep(0.01)
    logging.getLogger("kernelsearch.test").warning("odd item %s", item)
    return item


def settings_there(item, shared):
    time.sleep(0.01)
    return os.getpid(), jvm.configuration()


def prints(item, shared):
    print("nothing that a reader of answers understands", flush=True)
    os.write(1, b"nor this")
    return item


def test_results_of_both_processes_come_in_order(engine):
    pids = set()
    while len(pids) < 2:  # a busy machine may let one of them do all
        results = list(engine.map_shared(slowly, range(40), None, label="test"))
        assert [item for item, _ in results] == list(range(40))
        pids |= {pid for _, pid in results}
    assert HERE in pids


def test_the_shared_object_is_that_of_the_call(engine):
    for shared in (3, 4, "ab"):
        assert list(engine.map_shared(with_shared, range(20), shared, label="test")) == [item * shared for item in range(20)]


def test_few_tasks_start_no_process(monkeypatch):
    monkeypatch.undo()
    with ProcessEngine(2) as engine:
        assert list(engine.map_shared(with_shared, range(30), 2, label="test")) == [2 * item for item in range(30)]
        assert not engine._workers


@pytest.mark.parametrize(
    ("spent", "remaining", "worth"),
    [(0.4, 50.0, False), (0.6, 50.0, True), (0.6, 2.9, False), (0.6, 3.1, True), (60.0, 2.0, False)],
)
def test_processes_are_started_where_much_is_left(monkeypatch, spent, remaining, worth):
    monkeypatch.undo()
    assert processes._worth_starting(spent, remaining) is worth


@pytest.mark.parametrize("brief", [True, False])
def test_java_of_a_worker_optimises_only_for_long_work(brief, monkeypatch):
    monkeypatch.delenv("KERNELSEARCH_JAVA_OPTIONS", raising=False)  # make test sets the option for all Javas
    with ProcessEngine(2) as engine:
        engine.start(brief=brief)
        for _ in range(100):
            found = [few for few, pid in engine.map_shared(java_options, range(20), None, label="test") if pid != HERE]
            if found:
                break
    assert set(found) == {brief}


def test_lists_that_were_sent_are_those_that_were_computed():
    def ranked(docs, scores, *fallbacks):
        return Candidates(np.array(docs, np.int32), np.array(scores), fallbacks)

    lists = [
        ranked([3, 1], [2.5, 0.1]),
        ranked([], []),
        ranked([7], [1e-300], ("klsa", "no document")),
        ranked([2, 0, 9], [3, 2, 1.0]),
    ]
    mixed = [*lists, Candidates(np.array([4], np.int32), np.array([0.1], np.float32))]
    for sent in (lists, mixed, []):
        received = pickle.loads(pickle.dumps(_Lists(sent)))
        assert [(x.docs.tolist(), x.scores.tolist(), x.fallbacks) for x in received] == [
            (x.docs.tolist(), x.scores.tolist(), x.fallbacks) for x in sent
        ]
        assert all(
            x.docs.dtype == y.docs.dtype and x.scores.dtype == y.scores.dtype for x, y in zip(received, sent, strict=True)
        )


@pytest.mark.parametrize("program", [None, "/nowhere/python"])
def test_without_a_program_to_start_this_process_does_all(monkeypatch, program):
    monkeypatch.setattr(sys, "executable", program)
    with ProcessEngine(2) as engine:
        assert list(engine.map_shared(with_shared, range(9), 2, label="test")) == [2 * item for item in range(9)]
        assert engine.processes == 1


def test_an_error_comes_at_its_turn_as_itself(engine):
    results = engine.map_shared(fails_at_five, range(20), "twenty", label="test")
    assert [next(results) for _ in range(5)] == list(range(5))
    with pytest.raises(InputError, match=r"^item 5 of twenty$"):
        next(results)
    assert not engine._workers  # they may have been in the middle of a task
    wait_for_worker(engine)


def test_what_a_worker_prints_does_not_get_between_its_answers(engine, capfd):
    assert list(engine.map_shared(prints, range(20), None, label="test")) == list(range(20))


def test_what_fails_in_a_worker_alone_is_computed_here(engine):
    assert list(engine.map_shared(fails_elsewhere, range(20), HERE, label="test")) == list(range(20))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_the_tasks_of_a_worker_that_dies_or_is_stopped_are_done_here(engine, caplog, number):
    with caplog.at_level(logging.WARNING):
        while not caplog.records:  # until the worker has had a task
            shared = (HERE, number)
            assert list(engine.map_shared(gets_signal_elsewhere, range(20), shared, label="test")) == list(range(20))
    assert [record.getMessage() for record in caplog.records] == [
        "processes: a worker ended (status -9); others take over its tasks"
    ]
    wait_for_worker(engine)


def test_warnings_of_workers_are_repeated_once(engine):
    heard = []
    handler = logging.Handler()
    handler.emit = lambda record: heard.append(record.getMessage())
    logger = logging.getLogger("kernelsearch.test")
    logger.addHandler(handler)
    try:
        list(engine.map_shared(warns, range(30), None, label="test"))
    finally:
        logger.removeHandler(handler)
    here = [text for text in heard if text.startswith("odd item")]
    assert "odd item 0" in here and 1 <= len(here) < 30  # this process's own, and none of the worker's


def test_a_worker_has_the_settings_of_this_process(monkeypatch):
    monkeypatch.setattr(jvm, "_configured_heap", "77m")
    monkeypatch.setattr(jvm, "_configured_options", ("-Dx=y",))
    with ProcessEngine(2) as engine:
        wait_for_worker(engine)
        result = set()
        while len(result) < 2:  # until the worker has had a task
            result |= set(engine.map_shared(settings_there, range(20), None, label="test"))
    assert {java for _, java in result} == {("77m", ("-Dx=y",))}


def test_a_function_that_cannot_be_sent_is_called_here(engine):
    assert list(engine.map_shared(lambda item, _: item + 1, range(20), None, label="test")) == list(range(1, 21))


def test_what_cannot_be_sent_is_computed_here():
    shared = lambda: 2  # noqa: E731  cannot be pickled
    with ProcessEngine(2) as engine:
        assert list(engine.map_shared(lambda item, shared: item * shared(), range(9), shared, label="test")) == [
            2 * item for item in range(9)
        ]
        assert engine.processes == 1 and not engine._workers


class OpensOnlyHere:
    """An object that another process cannot open."""

    def __reduce__(self):
        return exec, ("raise ValueError('not here')",)


def test_what_a_worker_cannot_open_is_computed_here(engine, caplog):
    with caplog.at_level(logging.INFO):
        results = list(engine.map_shared(lambda item, shared: slowly(item, shared), range(100), OpensOnlyHere(), label="test"))
    assert results == [(item, HERE) for item in range(100)]
    assert any("a worker cannot take part (ValueError: not here)" in record.getMessage() for record in caplog.records)


@pytest.fixture(scope="module")
def topics():
    return [Topic(qid, text) for qid, text in read_topics(DEMO / "topics.tsv").items()]


@pytest.mark.parametrize("method", [None, "klsa", "pert", "mslm", "auto", "rbm25"])
def test_lists_are_those_of_one_process(engine, demo_index, topics, tmp_path, method):
    if method == "rbm25":
        import_log([DEMO / "clicks.jsonl"], tmp_path / "clicks.db")
    pipeline = demo_index.pipeline(method, **({"rbm25_clicks": str(tmp_path / "clicks.db")} if method == "rbm25" else {}))
    topics = [*topics, Topic("unknown", "unheardof")]

    def comparable(lists):
        return [(ranked.qid, ranked.docids, ranked.scores, ranked.candidates.fallbacks) for ranked in lists]

    expected = comparable(run_topics(pipeline, topics))
    for _ in range(2):  # the worker takes part in the second at the latest
        assert comparable(run_topics(pipeline, topics, engine=engine)) == expected


@pytest.mark.parametrize(("processes", "threads", "each"), [(1, 3, 3), (3, 1, 1), (2, 4, 2)])
def test_any_engine_that_declares_processes_gets_batches_for_all(demo_index, topics, processes, threads, each):
    class Recording(LocalEngine):
        def map_shared(self, function, items, shared, *, label):
            self.sizes = [len(item) for item in items]
            self.threads = function.args[0].threads
            return super().map_shared(function, items, shared, label=label)

    engine = Recording()
    engine.processes = processes
    lists = list(run_topics(demo_index.pipeline(), topics, engine=engine, batch_size=10, threads=threads))
    assert [ranked.qid for ranked in lists] == [topic.qid for topic in topics] and sum(engine.sizes) == len(topics)
    assert max(engine.sizes) == 10 if processes == 1 else len(engine.sizes) > 5 * processes
    assert engine.threads == each


def test_a_run_of_two_threads_is_that_of_one(demo_index, tmp_path):
    flags = ["--index", str(demo_index.path), "--topics", str(DEMO / "topics.tsv"), "--rerank", "klsa"]
    for threads in ("1", "2"):
        search.main([*flags, "--threads", threads, "--output", str(tmp_path / f"{threads}.txt")])
    search.main([*flags, "--threads", "2", "--run", str(tmp_path / "1.txt"), "--output", str(tmp_path / "3.txt")])
    search.main([*flags, "--threads", "1", "--run", str(tmp_path / "1.txt"), "--output", str(tmp_path / "4.txt")])
    assert (tmp_path / "1.txt").read_bytes() == (tmp_path / "2.txt").read_bytes()
    assert (tmp_path / "3.txt").read_bytes() == (tmp_path / "4.txt").read_bytes()


def test_a_method_that_writes_keeps_all_queries_in_this_process(demo_index, topics, monkeypatch):
    class Refusing(LocalEngine):
        def map_shared(self, *args, **kwargs):
            raise AssertionError("used")

    with pytest.raises(AssertionError, match="used"):
        list(run_topics(demo_index.pipeline("pert"), topics, engine=Refusing()))
    monkeypatch.setattr(PerturbationReranker, "in_one_process", True)
    assert len(list(run_topics(demo_index.pipeline("pert"), topics, engine=Refusing()))) == len(topics)


def test_an_index_that_was_replaced_meanwhile_is_refused(demo_index, topics):
    pipeline = pickle.loads(pickle.dumps(demo_index.pipeline()))
    assert _run_batch(_BatchSettings(1, "run", demo_index.fingerprint), topics[:1], pipeline)
    with pytest.raises(IndexReplaced, match="replaced during the search"):
        _run_batch(_BatchSettings(1, "run", "another"), topics[:1], pipeline)


SCRIPT = """
import os, sys
from kernelsearch.engines import processes
from tests.engines.test_processes import slowly
processes.WORTH = processes.TELLING = 0
with processes.ProcessEngine(2) as engine:
    for item, pid in engine.map_shared(slowly, range(100_000), None, label="test"):
        if pid != os.getpid():
            print(pid, flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_no_worker_outlives_its_parent(number):
    parent = subprocess.Popen(
        [sys.executable, "-c", SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        text=True,
        preexec_fn=heeding_interrupts,
    )
    try:
        worker = int(parent.stdout.readline())
        assert Path(f"/proc/{worker}").exists() or sys.platform != "linux"
        parent.send_signal(number)
        parent.wait(10)
        for _ in range(200):
            try:
                os.kill(worker, 0)
            except ProcessLookupError:
                break
            time.sleep(0.02)
        else:
            raise AssertionError("the worker is still there")
    finally:
        parent.kill()
        parent.stdout.close()
