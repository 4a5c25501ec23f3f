"""A load generator for HTTP servers: connections that are kept open, each with one request at a time.

One thread and one selector: about 20 microseconds of CPU time per request, which two servers that are compared lose alike.
"""

from __future__ import annotations

import random
import selectors
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

LENGTH = b"content-length:"


@dataclass
class Load:
    """What clients saw: answers, seconds of the run, answers with a status other than 200, and latencies in seconds."""

    requests: int
    seconds: float
    errors: int
    latencies: np.ndarray

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    def percentile(self, percent: float) -> float:
        """The percentile `percent` (0 to 100) of the latencies in milliseconds."""
        return float(np.percentile(self.latencies, percent)) * 1000


class _Client:
    """A connection with one request under way."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._sent = 0.0

    def send(self, request: bytes) -> None:
        """Sends a request; `receive` returns its answer."""
        self._buffer, self._sent = b"", time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> tuple[int, float] | None:
        """Status and seconds of the answer; None while it is not complete."""
        part = self.socket.recv(1 << 18)
        if not part:
            raise ConnectionError("the server closed a connection")
        self._buffer += part
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return None
        place = self._buffer[:head].lower().index(LENGTH) + len(LENGTH)
        length = int(self._buffer[place : self._buffer.find(b"\r\n", place)])
        if len(self._buffer) < head + 4 + length:
            return None
        return int(self._buffer[9:12]), time.perf_counter() - self._sent


def run_load(port: int, requests: Sequence[bytes], clients: int, seconds: float) -> Load:
    """Sends requests in random order over `clients` connections for `seconds` to `port` of this machine.

    `requests` are complete HTTP requests as bytes.
    """
    chosen, latencies, errors = random.Random(0), [], 0
    with selectors.DefaultSelector() as selector:
        connections = [_Client(port) for _ in range(clients)]
        start = time.perf_counter()
        for connection in connections:
            selector.register(connection.socket, selectors.EVENT_READ, connection)
            connection.send(chosen.choice(requests))
        open_connections = clients
        while open_connections:
            for key, _ in selector.select():
                answer = key.data.receive()
                if answer is None:
                    continue
                errors += answer[0] != 200
                latencies.append(answer[1])
                if time.perf_counter() - start < seconds:
                    key.data.send(chosen.choice(requests))
                else:
                    selector.unregister(key.fileobj)
                    key.data.socket.close()
                    open_connections -= 1
        spent = time.perf_counter() - start
    return Load(len(latencies), spent, errors, np.array(latencies))
