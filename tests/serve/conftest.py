"""A served copy of the bundled collection's index, called in this process."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import kernelsearch
from kernelsearch.clicks.importing import import_log
from kernelsearch.serve.settings import IndexSpec, RequestLimits, ServiceSettings
from kernelsearch.trec import read_qrels, read_topics
from tests.conftest import DEMO

pytest.importorskip("fastapi")


@pytest.fixture(scope="session")
def fitted(demo_index, tmp_path_factory) -> Path:
    """A folder with the demo's index, fitted for klsa and mslm, and its click log as a database."""
    folder = tmp_path_factory.mktemp("served")
    shutil.copytree(demo_index.path, folder / "demo")
    index = kernelsearch.open(folder / "demo")
    index.train("klsa", dims=50)
    index.train("mslm")
    import_log([DEMO / "clicks.jsonl"], folder / "clicks.db")
    return folder


@pytest.fixture(scope="session")
def settings(fitted) -> ServiceSettings:
    topics, qrels = read_topics(DEMO / "topics.tsv"), read_qrels(DEMO / "qrels.txt")
    source = IndexSpec("demo", str(fitted / "demo"), topics, qrels, str(fitted / "clicks.db"))
    return ServiceSettings((source,), RequestLimits(threads=2, seconds=120))


def make_client(settings: ServiceSettings) -> Any:
    """A client of an application in this process, for a `with` statement, which starts and ends the application's threads."""
    from starlette.testclient import TestClient

    from kernelsearch.serve.app import make_app

    return TestClient(make_app(settings), base_url="http://127.0.0.1", raise_server_exceptions=False)


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Any]]:
    """Makes clients of applications with other settings, which end with the file's tests: each looks after its indexes.

    With `warm=False`, methods are loaded by the first request that needs them.
    """
    from kernelsearch.serve.catalogue import ServedIndex

    with ExitStack() as stack:

        def start(settings: ServiceSettings, warm: bool = True) -> Any:
            client = make_client(settings)
            with nullcontext() if warm else patch.object(ServedIndex, "warm_up", lambda _: None):
                return stack.enter_context(client)

        yield start


@pytest.fixture(scope="session")
def client(settings) -> Iterator[Any]:
    with make_client(settings) as client:
        yield client
