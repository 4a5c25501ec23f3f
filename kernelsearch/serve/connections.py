"""HTTP connections with limits on size and time, which uvicorn's parser in C does not have.

uvicorn's own setting (`h11_max_incomplete_event_size`) applies to its other parser only, and its keep-alive timer starts after
the first answer: without these limits, a client could send headers without end, or open connections and send nothing.
"""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from kernelsearch.serve.settings import RequestLimits


def make_protocol(limits: RequestLimits) -> type[asyncio.Protocol]:
    """The protocol class for `uvicorn.Config(http=...)` with the limits `head`, `request_seconds` and `connections`."""

    class LimitedProtocol(_LimitedProtocol):
        pass

    LimitedProtocol.limits = limits
    return LimitedProtocol


class _LimitedProtocol(HttpToolsProtocol):
    """One connection.

    It is closed where it has not sent a complete request after `limits.request_seconds`, where its client has not read an
    answer after that time, and where a request has more than `limits.head` bytes besides its body.
    """

    limits: RequestLimits

    def __init__(self, config: uvicorn.Config, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self._timer: asyncio.TimerHandle | None = None  # runs while a request is awaited or incomplete
        self._write_timer: asyncio.TimerHandle | None = None  # runs while the client does not read its answer
        self._unanswered: list[Any] = []  # requests (uvicorn's cycles) whose answer is not complete, several where pipelined
        self._received = 0  # bytes of the request besides its body
        self._refusal = 400

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Accepts a connection, or answers 503 where there are too many."""
        super().connection_made(transport)
        self.transport = _JoinedWrites(transport, self.loop)  # type: ignore[assignment]
        if len(self.connections) > self.limits.connections:
            self._refuse(503, "too many connections; try again later")
        else:
            self._start_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Releases the timers, and drops the requests that were not answered.

        uvicorn tells only the last one that the connection is gone; the others would write to it.
        """
        self._stop_timer()
        for cycle in self._unanswered:
            cycle.disconnected = not cycle.response_complete
            cycle.message_event.set()
        self.pipeline.clear()
        self.resume_writing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parses what has arrived."""
        if self.transport.is_closing():
            return
        self._received += len(data)
        super().data_received(data)
        if self._received > self.limits.head and not self.transport.is_closing():
            self._refuse(431, f"the request has more than {self.limits.head} bytes of headers")

    def send_400_response(self, msg: str) -> None:
        """Answers a request that could not be parsed, and closes the connection."""
        message = msg if self._refusal == 400 else f"the request has more than {self.limits.head} bytes of headers"
        self._refuse(self._refusal, message)

    def on_message_begin(self) -> None:
        """A request begins."""
        self._head = 0
        self._start_timer()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the request's target."""
        self._count_head(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer after a chunked body."""
        self._count_head(len(name) + len(value) + len(b": \r\n"))
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The request's head is complete, and its answer begins, or waits for those before it."""
        super().on_headers_complete()
        if self.cycle is not None and (not self._unanswered or self._unanswered[-1] is not self.cycle):
            self._unanswered.append(self.cycle)

    def on_body(self, body: bytes) -> None:
        """A part of the request's body, whose size the application limits."""
        self._received -= len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """The request is complete."""
        self._received = 0
        self._stop_timer()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """The answer is complete; the next request is awaited."""
        self._unanswered = [cycle for cycle in self._unanswered if not cycle.response_complete]
        if not self.pipeline and not self.transport.is_closing():
            self._start_timer()
        super().on_response_complete()

    def pause_writing(self) -> None:
        """The client reads more slowly than the answer is written."""
        super().pause_writing()
        if self._write_timer is None:
            self._write_timer = self.loop.call_later(self.limits.request_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read what was written."""
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    def _count_head(self, size: int) -> None:
        self._head += size
        if self._head > self.limits.head:
            self._refusal = 431
            raise ValueError  # reported by the parser, which calls send_400_response

    def _start_timer(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(self.limits.request_seconds, self._expire)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _expire(self) -> None:
        self._timer = None
        answering = self.cycle is not None and not self.cycle.response_complete
        if self._received and not answering:
            self._refuse(408, "the request was not complete in time")
        else:
            self.transport.close()

    def _refuse(self, status: int, message: str) -> None:
        """Answers with an error and closes the connection; only closes it where another answer is under way."""
        self._stop_timer()
        if self.cycle is None or self.cycle.response_complete:
            body = orjson.dumps({"error": message})
            head = b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body)
            self.transport.write(STATUS_LINE[status] + head + body)
        self.transport.close()


class _JoinedWrites:
    """The transport of a connection that sends what is written in one iteration of the event `loop` by one system call.

    uvicorn writes the head and the body of an answer separately, and each call wakes the client.
    """

    __slots__ = ("_loop", "_parts", "_transport")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        """Writes `data` at the end of the present iteration."""
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def _flush(self) -> None:
        parts, self._parts = self._parts, []
        if parts and not self._transport.is_closing():
            self._transport.write(b"".join(parts))

    def close(self) -> None:
        """Closes the connection when everything is sent."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Closes the connection at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed or will be."""
        return self._transport.is_closing()
