"""The server as a process and its behaviour under load: keys, limits, overload, time-outs, metrics, the end."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from kernelsearch.api.pipeline import Pipeline
from kernelsearch.core.errors import Flag, InputError, KernelSearchError, OptionError
from kernelsearch.serve import __main__ as serve
from kernelsearch.serve.endpoints import search
from kernelsearch.serve.settings import KEY_VARIABLE, IndexSpec, RequestLimits
from tests.conftest import DEMO, ROOT, heeding_interrupts


def run(*arguments: str, **variables: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "kernelsearch.serve", *arguments],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=heeding_interrupts,
    )


@pytest.fixture
def process(fitted) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A real server on a free port: the process and its address."""
    flags = ["--topics", str(DEMO / "topics.tsv"), "--qrels", str(DEMO / "qrels.txt"), "--port", "0", "--timeout", "120"]
    flags += ["--request-timeout", "120", "--grace", "120"]
    server = run("--index", f"repairs={fitted / 'demo'}", *flags)
    yield server, announced_address(server)
    server.kill()
    server.communicate()


def announced_address(server: subprocess.Popen[str]) -> str:
    """The address in the server's second line; the first one names the indexes that are being opened."""
    assert server.stderr is not None
    lines = [server.stderr.readline(), server.stderr.readline()]
    assert lines[0] == "kernelsearch: opening repairs\n", lines[0] + server.stderr.read()
    address = re.search(r"http://\S+", lines[1])
    assert address is not None, "".join(lines) + server.stderr.read()
    return address[0].rstrip("/")


def printed(server: subprocess.Popen[str]) -> str:
    """What the server has printed to stderr since the last call."""
    assert server.stderr is not None
    os.set_blocking(server.stderr.fileno(), False)
    try:
        return os.read(server.stderr.fileno(), 1 << 20).decode()
    except BlockingIOError:
        return ""


def fetch(url: str, **headers: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=120) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read().decode()


def test_a_process_answers_and_finishes_what_is_in_flight_when_asked_to_stop(process):
    server, address = process
    status, expected = fetch(f"{address}/v1/repairs/search?query=dripping+tap&hits=3")
    assert status == 200 and len(json.loads(expected)["candidates"]) == 3
    # A request whose body has not arrived yet is surely in flight.
    host, port = address.removeprefix("http://").split(":")
    body = b'{"query": "dripping tap", "hits": 3}'
    head = "POST /v1/repairs/search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection((host, int(port)), timeout=120) as line:
        line.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[:5])
        assert fetch(f"{address}/health")[0] == 200  # the server has read what was sent before
        server.send_signal(signal.SIGTERM)
        with pytest.raises(OSError):
            while True:
                fetch(f"{address}/health")
        line.sendall(body[5:])
        answer = b"".join(iter(lambda: line.recv(65536), b""))
    result = json.loads(answer.partition(b"\r\n\r\n")[2])
    assert answer.startswith(b"HTTP/1.1 200 ") and result["candidates"] == json.loads(expected)["candidates"]
    assert server.wait(60) == 0


def test_bad_bytes_on_the_wire_are_harmless(impatient):
    server, address = impatient
    host, port = address.removeprefix("http://").split(":")
    for junk in (
        b"\xff\xfe\x00\r\n\r\n",
        b"GET /v1/repairs/search?query=\xff\xfe HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v1/repairs/search?query=" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /v1/repairs/doc/\xc3\x28 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET /health HTTP/1.1\r\nX: " + b"a" * 200_000 + b"\r\n\r\n",
        b"POST /v1/repairs/click HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=60) as line:
            line.sendall(junk)
            answer = line.recv(65536)
        assert answer == b"" or re.match(rb"HTTP/1.1 4\d\d ", answer), (junk[:40], answer[:200])
    assert fetch(f"{address}/health")[0] == 200
    assert "Traceback" not in printed(server)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--index is not given"),
        (("--topics", "t.tsv"), "belongs after the --index"),
        (("--index", "a=x", "--index", "a=y"), "two are named a"),
        (("--index", "x", "--qrels", "a", "--qrels", "b"), "given twice for --index x"),
        (("--index", "no/such"), "no/such: no such index"),
        (("--index", "x", "--host", "0.0.0.0"), "clients need a key"),
        (("--index", "x", "--klsa.z", "0"), "--klsa.z: 0 is below 1"),
        (("--index", "x", "--timeout", "0"), "--timeout: 0.0 is below"),
        (("--index", "x", "--proxy", "nginx"), "--proxy: 'nginx' is not an IP address or a network"),
        (("--index", "x", "--proxy", "*"), "--proxy: '*' is not an IP address or a network"),
        (("--index", "x", "--api-key", ""), "--api-key: an empty text"),
    ],
)
def test_what_cannot_be_started_is_refused_in_one_line(arguments, message, capsys, monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    with pytest.raises((KernelSearchError, SystemExit)) as raised:
        serve.main(list(arguments))
    assert message in (
        raised.value.message(Flag.on_command_line) if isinstance(raised.value, KernelSearchError) else capsys.readouterr().err
    )


def test_a_public_address_needs_a_key_or_no_api_key(monkeypatch):
    monkeypatch.delenv(KEY_VARIABLE, raising=False)

    def settings(*arguments: str):
        return serve.read_settings(["--index", "x", *arguments])[1]

    assert settings().hosts is not None and settings().api_key is None
    for host in ("0.0.0.0", "::", "192.168.1.5", "example.org"):
        with pytest.raises(OptionError, match="need a key"):
            settings("--host", host)
    assert settings("--host", "0.0.0.0", "--no-api-key").api_key is None
    assert settings("--host", "0.0.0.0", "--api-key", "k").api_key == "k"
    monkeypatch.setenv(KEY_VARIABLE, "from the environment")
    assert settings("--host", "0.0.0.0").api_key == "from the environment"
    assert settings("--host", "0.0.0.0").hosts is None


def test_a_server_is_called_by_the_address_that_it_listens_on():
    for address, name in (("192.168.1.5", "192.168.1.5"), ("FD00::5", "[fd00::5]")):
        arguments = ["--index", "x", "--host", address, "--no-api-key", "--host-names", "search.example.org"]
        assert {name, "search.example.org"} <= serve.read_settings(arguments)[1].hosts


@pytest.mark.parametrize("folder", [".", "demo"])
def test_messages_of_an_index_with_a_relative_path_are_readable(start, settings, fitted, monkeypatch, folder):
    """The folder's name is replaced where it is a path, not in other words."""
    monkeypatch.chdir(fitted / "demo" if folder == "." else fitted)
    client = start(replace(settings, indexes=(IndexSpec("own", folder),)), warm=False)
    message = client.get("/v1/own/search?query=tap&rerank=fusion").json()["error"]
    assert message.startswith(
        "own: no fusion is trained for it; train one with python -m kernelsearch.train --index own --rerank"
    )
    assert str(fitted) not in message


def test_a_port_in_use_is_named(fitted, monkeypatch):
    monkeypatch.setattr("kernelsearch.serve.server._limit_threads", lambda: None)  # it would limit those of the other tests
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        opened = []
        monkeypatch.setattr("kernelsearch.serve.server.make_app", opened.append)
        with pytest.raises(
            InputError, match=rf"^--host, --port: cannot listen on 127\.0\.0\.1:{port} \(Address already in use\)$"
        ):
            serve.main(["--index", str(fitted / "demo"), "--port", str(port)])
        assert not opened  # a large index takes long


def test_endpoints_require_the_key(start, settings):
    client = start(replace(settings, api_key="a secret ü"))
    key = "a secret ü".encode()
    for path in ("/v1/demo/search?query=tap", "/v1/indexes", "/metrics", "/openapi.json", "/v1/demo/doc/hr001", "/nothing"):
        answer = client.get(path)
        assert answer.status_code == 401 and "X-API-Key" in answer.json()["error"]
        assert client.get(path, headers={"x-api-key": "a secret"}).status_code == 401
        assert client.get(path, headers={"authorization": "Bearer wrong"}).status_code == 401
    for headers in ({b"x-api-key": key}, {b"authorization": b"Bearer " + key}, {b"authorization": b"bearer  " + key}):
        assert client.get("/v1/demo/search?query=tap", headers=headers).status_code == 200
    for path in ("/", "/health"):
        assert client.get(path).status_code == 200
    assert client.get("/page/none.js").status_code == 404


def test_too_many_requests_are_refused_and_the_others_answered(start, settings, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(search, "search", lambda *_: release.wait(60) and {})
    client = start(replace(settings, limits=RequestLimits(threads=1, waiting=1, seconds=60)))
    outcome: list[int] = []

    def ask() -> None:
        outcome.append(client.get("/v1/demo/search?query=tap").status_code)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for thread in threads:
        thread.start()
    while "kernelsearch_working 2" not in client.get("/metrics").text:
        time.sleep(0.01)
    refused = client.get("/v1/demo/search?query=tap")
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "1" and "too many" in refused.json()["error"]
    assert client.get("/health").status_code == 200  # the sign of life needs no thread
    release.set()
    for thread in threads:
        thread.join()
    assert outcome == [200, 200]
    assert client.get("/v1/demo/search?query=tap").status_code == 200
    metrics = client.get("/metrics").text
    assert "kernelsearch_refused_total 1" in metrics and "kernelsearch_working 0" in metrics


def test_a_slow_request_times_out_and_still_counts_as_load(start, settings, monkeypatch):
    release = threading.Event()
    monkeypatch.setattr(search, "search", lambda *_: release.wait(60) and {})
    client = start(replace(settings, limits=RequestLimits(threads=1, waiting=0, seconds=1)))
    late = client.get("/v1/demo/search?query=tap")
    assert late.status_code == 504 and "too long" in late.json()["error"]
    assert client.get("/v1/demo/search?query=tap").status_code == 503
    release.set()
    while "kernelsearch_working 0" not in client.get("/metrics").text:
        time.sleep(0.01)
    assert client.get("/v1/demo/search?query=tap").status_code == 200
    assert "kernelsearch_late_total 1" in client.get("/metrics").text


def test_a_batch_that_has_timed_out_ends_after_the_queries_at_hand(start, settings, monkeypatch):
    """Its thread is free long before all of its queries would be ranked."""
    ranked, timed_out, rerank = [], threading.Event(), Pipeline.rerank

    def rerank_slowly(self, queries, *args, **options):
        ranked.extend(queries)
        assert timed_out.wait(60)
        return rerank(self, queries, *args, **options)

    client = start(replace(settings, limits=RequestLimits(threads=1, waiting=0, seconds=0.5)), warm=False)
    assert client.get("/v1/demo/search?query=tap&rerank=klsa").status_code == 200
    monkeypatch.setattr(Pipeline, "rerank", rerank_slowly)
    late = client.post("/v1/demo/batch", json={"queries": ["dripping tap"] * 100, "rerank": "klsa"})
    assert late.status_code == 504
    timed_out.set()
    while "kernelsearch_working 0" not in client.get("/metrics").text:
        time.sleep(0.01)
    assert 0 < len(ranked) <= 16


def test_an_internal_error_is_a_500_without_details(start, settings, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr(search, "search", fail)
    client = start(settings)
    answer = client.get("/v1/demo/search?query=tap")
    assert answer.status_code == 500 and "secret" not in answer.text
    assert "secret detail" in caplog.text


def test_metrics_count_by_template_and_sum_up(start, settings):
    client = start(settings)
    for number in range(3):
        client.get(f"/v1/demo/doc/hr00{number + 1}")
    client.get("/v1/demo/doc/none")
    text = client.get("/metrics").text
    assert 'kernelsearch_requests_total{endpoint="/v1/{index}/doc/{docid}",status="200"} 3' in text
    assert 'kernelsearch_requests_total{endpoint="/v1/{index}/doc/{docid}",status="404"} 1' in text
    counts = [int(n) for n in re.findall(r'seconds_bucket\{endpoint="/v1/\{index\}/doc/\{docid\}",le="[^"]+"\} (\d+)', text)]
    assert counts == sorted(counts) and counts[-1] == 4
    assert 'seconds_count{endpoint="/v1/{index}/doc/{docid}"} 4' in text
    for line in text.splitlines():
        assert re.fullmatch(r'# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [0-9.]+', line), line


def test_method_flags_are_the_defaults_of_requests(start, settings):
    client = start(replace(settings, methods={"klsa": {"lambda": 0.0}}))
    plain = client.get("/v1/demo/search?query=dripping+tap").json()["candidates"]
    served = client.get("/v1/demo/search?query=dripping+tap&rerank=klsa").json()["candidates"]
    assert [entry["docid"] for entry in served] == [entry["docid"] for entry in plain]
    moved = client.get("/v1/demo/search?query=dripping+tap&rerank=klsa&klsa.lambda=1&klsa.z=5").json()["candidates"]
    assert [entry["docid"] for entry in moved] != [entry["docid"] for entry in plain]


def ask_raw(address: str, *parts: bytes, pause: float = 0.0, close: bool = False) -> bytes:
    """What the server sends back on a connection of its own until it closes it; b"" where `close` ends it at once."""
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=30) as line:
        with contextlib.suppress(ConnectionError):  # the server may have answered and closed before the last part
            for part in parts:
                line.sendall(part)
                time.sleep(pause)
        if close:
            return b""
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while chunk := line.recv(65536):
                received += chunk
        return received


def resident_megabytes(pid: int) -> int:
    """Resident memory of a process in MB."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as stream:
        return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20


@pytest.fixture(scope="module")
def impatient(fitted, tmp_path_factory) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server with MCP that closes incomplete requests after half a second and has at most 20 connections.

    Whatever the tests send to it, it ends with status 0 when it is interrupted.
    """
    log = tmp_path_factory.mktemp("impatient") / "clicks.db"
    shutil.copy(fitted / "clicks.db", log)
    flags = ["--clicks", str(log), "--record-clicks", "--mcp", "--port", "0", "--request-timeout", "0.5", "--connections", "20"]
    server = run("--index", f"repairs={fitted / 'demo'}", *flags)
    try:
        yield server, announced_address(server)
        assert "Traceback" not in printed(server)
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
        assert printed(server) == ""
    finally:
        server.kill()
        server.communicate()


def test_connections_are_limited_in_size_time_and_number(impatient):
    server, address = impatient
    host = b"Host: 127.0.0.1\r\n"
    # Headers: one long header, many short ones, and a long one that never ends.
    before = resident_megabytes(server.pid)
    start = b"GET /health HTTP/1.1\r\n" + host
    assert ask_raw(address, start, b"X: " + b"a" * 100_000 + b"\r\n\r\n").startswith(b"HTTP/1.1 431 ")
    # One write, so that a request may arrive whole, and two, so that it may not.
    assert ask_raw(address, start + b"X: 1\r\n" * 20_000 + b"\r\n").startswith(b"HTTP/1.1 431 ")
    assert ask_raw(address, start, b"X: 1\r\n" * 20_000, b"\r\n").startswith(b"HTTP/1.1 431 ")
    with contextlib.suppress(ConnectionError):
        assert b"431" in ask_raw(address, start + b"X: ", *[b"a" * 1_000_000] * 50)[:20]
    assert resident_megabytes(server.pid) - before < 30
    # Trailers after a chunked body are headers too.
    chunked = b"POST /v1/repairs/click HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"
    with contextlib.suppress(ConnectionError):
        answer = ask_raw(address, chunked, *[b"X: " + b"a" * 10_000 + b"\r\n"] * 20)
        assert b"HTTP/1.1 200" not in answer
    assert ask_raw(
        address, b"POST /v1/repairs/click HTTP/1.1\r\n" + host + b"Content-Length: " + b"9" * 4400 + b"\r\n\r\n"
    ).startswith(b"HTTP/1.1 4")
    # Time: nothing sent, half a request, half a body, a byte at a time.
    began = time.monotonic()
    assert ask_raw(address) == b""
    assert ask_raw(address, b"GET /health HT").startswith(b"HTTP/1.1 408 ")
    assert ask_raw(address, b"POST /mcp HTTP/1.1\r\n" + host + b"Content-Length: 100\r\n\r\n{") == b""
    with contextlib.suppress(ConnectionError):
        assert b"408" in ask_raw(address, *[b"\r\n"] * 8, b"GET", pause=0.08)
    assert time.monotonic() - began > 1.5
    # Number: connections that send nothing can't lock others out for longer than the time limit.
    where = (address.removeprefix("http://").split(":")[0], int(address.rsplit(":", 1)[1]))
    answer = b""
    while b" 503 " not in answer:  # again where this machine took longer than the time limit to open them
        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(socket.create_connection(where))
            answer = ask_raw(address, b"GET /health HTTP/1.1\r\n" + host + b"\r\n")
            while fetch(f"{address}/health")[0] != 200:
                time.sleep(0.05)
    # A request with a body in small chunks, and two requests on one connection, are answered as ever.
    two = b"GET /health HTTP/1.1\r\n" + host + b"\r\n"
    assert ask_raw(address, two + two).count(b"HTTP/1.1 200") == 2


def test_aborted_requests_cost_nothing_and_are_no_errors(impatient):
    server, address = impatient

    def cpu_seconds() -> float:
        with open(f"/proc/{server.pid}/stat", encoding="ascii") as stream:
            return sum(map(int, stream.read().rsplit(")", 1)[1].split()[11:13])) / os.sysconf("SC_CLK_TCK")

    assert "Traceback" not in printed(server)
    began = cpu_seconds()
    for number in range(40):
        path = b"/mcp" if number % 2 else b"/v1/repairs/click"
        head = b"POST " + path + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 50\r\n\r\n"
        ask_raw(address, head + b'{"impression"', close=True)
    # Several requests at once, of which none waits for an answer.
    search = b"GET /v1/repairs/search?query=dripping+tap&rerank=mslm HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for _ in range(3):
        ask_raw(address, search * 10, pause=0.02, close=True)
    assert fetch(f"{address}/health")[0] == 200
    assert cpu_seconds() - began < 2
    assert printed(server) == ""
