"""An index that is replaced while it is served: every answer is of the old or the new state, and nothing is written into it."""

from __future__ import annotations

import gc
import os
import shutil
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

import kernelsearch
from kernelsearch import index as index_verb
from kernelsearch.clicks.store import ClickLog
from kernelsearch.core import files
from kernelsearch.core.errors import IndexReplaced
from kernelsearch.serve.service import COLLECTIONS, Service
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings
from tests.conftest import write_jsonl

WORDS = ["tap", "washer", "faucet", "fuse", "breaker", "water", "panel", "leak", "pipe", "valve"]


def build(folder: Path, name: str, count: int) -> Path:
    """An index whose documents all have `name` in their ids and texts."""
    documents = [
        {"id": f"{name}{n}", "title": f"{name} {WORDS[n % 10]}", "contents": " ".join([name, "tap", *WORDS[n % 7 : n % 7 + 3]])}
        for n in range(count)
    ]
    path = folder / f"{name}.index"
    index_verb.main(["--input", str(write_jsonl(folder / f"{name}.jsonl", documents)), "--index", str(path)])
    return path


def exchange(live: Path, new: Path) -> None:
    old = live.with_name("moved-away")
    os.rename(live, old)
    os.rename(new, live)
    os.rename(old, new)


@pytest.fixture(autouse=True)
def watching(monkeypatch) -> None:
    """The service looks for new states ten times per second, and leaves garbage to Python: that of a whole suite takes long."""
    monkeypatch.setattr("kernelsearch.serve.service.WATCH_SECONDS", 0.1)
    monkeypatch.setattr("kernelsearch.serve.service.COLLECTIONS", 0)


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("built")
    return build(folder, "old", 30), build(folder, "new", 40)


@pytest.fixture
def folders(built, tmp_path) -> tuple[Path, Path]:
    """The live index, of the state "old", and another one, of the state "new"."""
    old, new = built
    return shutil.copytree(old, tmp_path / "live"), shutil.copytree(new, tmp_path / "new.index")


def serve(start, live: Path, **more):
    return start(ServiceSettings((IndexSpec("live", str(live)),), RequestLimits(threads=4, seconds=60), **more))


def states(answer) -> set[str]:
    """The states that an answer's documents and texts come from."""
    assert answer.status_code == 200, answer.text
    entries = answer.json()["candidates"]
    return {entry["docid"][:3] for entry in entries} | {entry["doc"]["title"][:3] for entry in entries}


def wait_for(condition, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_new_state_is_served_and_no_answer_mixes_both(start, folders):
    live, new = folders
    client = serve(start, live)
    paths = ["", "&rerank=klsa", "&rerank=mslm", "&rerank=pert", "&rm3=true", "&highlight=true", "&rerank=auto"]
    assert states(client.get("/v1/live/search?query=tap")) == {"old"}
    stop, seen = threading.Event(), []

    def ask(number: int) -> None:
        turn = number
        while not stop.is_set():
            seen.append(states(client.get(f"/v1/live/search?query=tap+water&hits=20{paths[turn % len(paths)]}")))
            turn += 1

    with ThreadPoolExecutor(4) as pool:
        running = [pool.submit(ask, number) for number in range(4)]
        wait_for(lambda: len(seen) > 20)
        exchange(live, new)
        wait_for(lambda: {"new"} in seen)
        answered = len(seen)
        wait_for(lambda: len(seen) > answered + 20)
        stop.set()
        for future in running:
            future.result()
    assert {frozenset(state) for state in seen} == {frozenset({"old"}), frozenset({"new"})}
    assert client.get("/v1/indexes").json()["indexes"][0]["documents"] == 40


def test_the_parts_of_auto_that_an_index_built_again_lacks_are_named(start, folders, monkeypatch):
    """`index --force` drops what was fitted; a large index is not fitted on its first use."""
    live, _ = folders
    kernelsearch.open(live).train("klsa", dims=3)
    kernelsearch.open(live).train("mslm")
    monkeypatch.setattr("kernelsearch.rerankers.klsa.reranker.FIT_ON_USE", 0)
    monkeypatch.setattr("kernelsearch.rerankers.mslm.graph.SMALL", 0)
    client = serve(start, live)

    def parts() -> dict[str, str | None]:
        (auto,) = (state for state in client.get("/v1/indexes").json()["indexes"][0]["methods"] if state["name"] == "auto")
        assert auto["ready"] and all(part["in_use"] == (part["why"] is None) for part in auto["parts"])
        return {part["name"]: part["why"] for part in auto["parts"]}

    def notes() -> list[list[str]]:
        query = "query=tap&rerank=auto"
        answers = [client.get(f"/v1/live/{path}?{query}").json() for path in ("search", "explain")]
        answers.append(client.post("/v1/live/batch", json={"queries": ["tap"], "rerank": ["auto"]}).json())
        columns = client.get(f"/v1/live/compare?{query}").json()["columns"]
        assert columns[0]["notes"] == []
        return [answer["notes"] for answer in (*answers, columns[1])]

    line = "auto: in use: mslm, related words, klsa; not in use: vectors (the index has none)"
    assert notes() == [[line]] * 4 and [name for name, why in parts().items() if why is None] == [
        "mslm",
        "related words",
        "klsa",
    ]
    source = write_jsonl(
        live.parent / "again.jsonl", [{"id": f"new{n}", "title": "new", "contents": "a tap"} for n in range(9)]
    )
    index_verb.main(["--input", str(source), "--index", str(live), "--force"])
    wait_for(lambda: client.get("/v1/indexes").json()["indexes"][0]["documents"] == 9)
    after = parts()
    assert after["mslm"] is None and "kernelsearch.train --index live --rerank mslm" in after["related words"]
    assert "kernelsearch.train --index live --rerank klsa" in after["klsa"]
    (told,) = {line for lines in notes() for line in lines}
    assert told.startswith("auto: in use: mslm; not in use: related words (") and after["klsa"] in told


def test_nothing_of_the_old_state_is_written_into_the_new_one(folders):
    live, new = folders
    opened = kernelsearch.open(live)
    opened.search("tap")
    exchange(live, new)
    before = sorted(path.relative_to(live) for path in live.rglob("*"))
    for use in (lambda: opened.train("klsa", dims=3), lambda: opened.field("title"), lambda: opened.artefacts):
        with pytest.raises(IndexReplaced, match="live: the index has been replaced since it was opened"):
            use()
    assert sorted(path.relative_to(live) for path in live.rglob("*")) == before
    assert opened.replaced() and not kernelsearch.open(live).replaced()


def test_a_request_that_needs_more_of_a_replaced_index_gets_the_new_one(start, folders):
    live, new = folders
    client = serve(start, live)
    assert states(client.get("/v1/live/search?query=tap")) == {"old"}
    exchange(live, new)
    # klsa with another z is not loaded yet: the old state can't load it any more.
    assert states(client.get("/v1/live/search?query=tap&rerank=klsa&klsa.z=3")) == {"new"}
    assert states(client.get("/v1/live/search?query=tap")) == {"new"}


def test_a_request_that_waits_for_another_thread_to_open_the_new_state_gets_it(start, folders, monkeypatch):
    live, new = folders
    client = serve(start, live)
    refresh = Service.refresh

    def refresh_second(service: Service, name: str) -> bool:
        """As in a thread that had to wait for another one, which opened the new state meanwhile."""
        refresh(service, name)
        return refresh(service, name)

    monkeypatch.setattr(Service, "refresh", refresh_second)
    exchange(live, new)
    # klsa with another z is not loaded yet: the old state cannot load it any more.
    assert states(client.get("/v1/live/search?query=tap&rerank=klsa&klsa.z=3")) == {"new"}


def test_documents_that_are_added_and_deleted_are_served(start, folders):
    live, _ = folders
    client = serve(start, live)
    assert states(client.get("/v1/live/search?query=tap&rerank=klsa&hits=50")) == {"old"}
    source = write_jsonl(
        live.with_name("more.jsonl"), [{"id": f"new{n}", "title": "new", "contents": "a tap"} for n in range(5)]
    )
    live.with_name("ids.txt").write_text("".join(f"old{n}\n" for n in range(30) if n != 3))
    index_verb.main(["--index", str(live), "--append", str(source), "--delete", str(live.with_name("ids.txt"))])
    wait_for(lambda: client.get("/v1/indexes").json()["indexes"][0]["documents"] == 6)
    entries = client.get("/v1/live/search?query=tap&rerank=klsa&hits=50").json()["candidates"]
    assert sorted(entry["docid"] for entry in entries) == ["new0", "new1", "new2", "new3", "new4", "old3"]


def test_the_old_state_is_served_while_the_new_one_cannot_be_opened(start, folders, caplog):
    live, _ = folders
    client = serve(start, live)
    os.rename(live, live.with_name("gone"))
    wait_for(lambda: "the old state is served further" in caplog.text)
    assert states(client.get("/v1/live/search?query=tap")) == {"old"}
    os.rename(live.with_name("gone"), live)
    assert states(client.get("/v1/live/search?query=tap&rerank=klsa")) == {"old"}


def test_clicks_go_to_the_log_of_the_state_that_is_served(start, folders):
    live, new = folders
    client = serve(start, live, record_clicks=True)

    def click() -> int:
        answer = client.get("/v1/live/search?query=tap").json()
        docids = [entry["docid"] for entry in answer["candidates"]]
        body = {"impression": answer["impression"], "query": "tap", "docids": docids, "clicked": docids[0]}
        return client.post("/v1/live/click", json=body).status_code

    assert click() == 200
    exchange(live, new)
    assert not (live / "kernelsearch" / "clicks.db").exists()
    click()  # refused where the list is still of the old state
    wait_for(lambda: states(client.get("/v1/live/search?query=tap")) == {"new"})
    assert click() == 200
    assert {docid[:3] for docid in ClickLog(live / "kernelsearch" / "clicks.db").docids()} == {"new"}
    assert {docid[:3] for docid in ClickLog(new / "kernelsearch" / "clicks.db").docids()} == {"old"}


def test_a_click_during_the_exchange_waits_and_is_not_lost(start, folders, monkeypatch):
    """The click log has been copied and the folder is not replaced yet: a click into the old log would be lost."""
    live, _ = folders
    client = serve(start, live, record_clicks=True)
    answer = client.get("/v1/live/search?query=tap").json()
    docids = [entry["docid"] for entry in answer["candidates"]]

    def click(number: int) -> int:
        body = {"impression": answer["impression"], "query": "tap", "docids": docids, "clicked": docids[number]}
        return client.post("/v1/live/click", json=body).status_code

    assert click(0) == 200
    late, replace_folder = [], files.replace_folder
    source = write_jsonl(live.with_name("more.jsonl"), [{"id": "new0", "title": "new", "contents": "a tap"}])
    with ThreadPoolExecutor(1) as pool:

        def replace_slowly(new: Path, path: Path) -> None:
            if path == live:
                late.append(pool.submit(click, 1))
                time.sleep(0.3)
                assert not late[0].done()
            replace_folder(new, path)

        monkeypatch.setattr(files, "replace_folder", replace_slowly)
        index_verb.main(["--index", str(live), "--append", str(source)])
        assert late[0].result() == 200
    assert ClickLog(live / "kernelsearch" / "clicks.db").counts()["clicks"] == 2


def test_replacing_again_and_again_leaves_no_open_files(start, folders, monkeypatch):
    monkeypatch.setattr("kernelsearch.serve.service.COLLECTIONS", COLLECTIONS)
    live, new = folders
    client = serve(start, live)

    def open_files() -> int:
        count = 0
        for number in os.listdir("/proc/self/fd"):
            with suppress(FileNotFoundError):  # closed by another thread meanwhile
                count += str(live.parent) in os.readlink(f"/proc/self/fd/{number}")
        return count

    counts = []
    for turn in range(4):
        exchange(live, new)
        wanted = {"new"} if turn % 2 == 0 else {"old"}
        wait_for(lambda wanted=wanted: states(client.get("/v1/live/search?query=tap")) == wanted)
        counts.append(open_files())
    # The first states fit their methods in memory; those after them read what was fitted.
    # A state is closed when its last request is done, and the service collects objects that refer to each other.
    gc.disable()
    try:
        wait_for(lambda: open_files() <= counts[1])
    finally:
        gc.enable()
    wait_for(lambda: not client.app.app.app.state.service._old)
