"""What is written to a connection: one system call per answer, and nothing is lost when it is closed."""

from __future__ import annotations

import asyncio

import pytest

pytest.importorskip("fastapi")

from kernelsearch.serve.connections import _JoinedWrites


class Recorder:
    """A transport that remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[bytes | str] = []

    def write(self, data: bytes) -> None:
        self.calls.append(data)

    def close(self) -> None:
        self.calls.append("close")

    def is_closing(self) -> bool:
        return "close" in self.calls


def test_parts_of_one_iteration_are_written_together_and_before_the_connection_is_closed():
    async def work() -> list[bytes | str]:
        recorder = Recorder()
        joined = _JoinedWrites(recorder, asyncio.get_running_loop())
        joined.write(b"head, ")
        joined.write(b"body")
        assert recorder.calls == []
        await asyncio.sleep(0)
        joined.write(b"last")
        joined.close()
        assert joined.is_closing()
        joined.write(b"too late")
        await asyncio.sleep(0)
        return recorder.calls

    assert asyncio.run(work()) == [b"head, body", b"last", "close"]
