"""The HTTP server: uvicorn with our logging, signals and error messages."""

from __future__ import annotations

import contextlib
import signal
import socket
from collections.abc import Callable, Iterator

import uvicorn
from threadpoolctl import threadpool_limits

from kernelsearch.core.errors import InputError
from kernelsearch.neighbours.faiss_index import load_faiss
from kernelsearch.serve.app import make_app
from kernelsearch.serve.connections import make_protocol
from kernelsearch.serve.settings import ServeSettings, ServiceSettings


def run_server(service: ServiceSettings, settings: ServeSettings, announce: Callable[[str], None]) -> None:
    """Serves until SIGINT or SIGTERM; `announce` is called with one line once the server accepts requests.

    `service` are the settings of what is served, `settings` those of the server: address, workers. Raises InputError where the
    server cannot listen on its address.
    """
    _limit_threads()
    listening = _bind(settings.host, settings.port)  # before the indexes are opened, which takes longer
    config = uvicorn.Config(
        make_app(service),
        host=settings.host,
        port=settings.port,
        log_level="info" if settings.access_log else "warning",
        access_log=settings.access_log,
        server_header=False,
        timeout_graceful_shutdown=settings.grace,
        http=make_protocol(service.limits),
        ws="none",
        # Anyone could name another client in this header.
        proxy_headers=settings.proxy is not None,
        forwarded_allow_ips=settings.proxy,
    )
    server = _Server(config, ", ".join(spec.name for spec in service.indexes), announce)
    with contextlib.suppress(SystemExit):  # uvicorn has logged why the application did not start
        server.run(listening)
    if not server.started:
        raise InputError(f"the server did not start on {config.host}:{config.port}")


def _bind(host: str, port: int) -> list[socket.socket]:
    """A socket for each address of `host`, bound to the port; InputError where that is not possible."""
    bound = []
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            listener = socket.socket(family, kind, protocol)
            bound.append(listener)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            listener.bind(address)
    except OSError as problem:
        for listener in bound:
            listener.close()
        raise InputError(f"--host, --port: cannot listen on {host}:{port} ({problem.strerror or problem})") from None
    return bound


def _limit_threads() -> None:
    """One thread per request in BLAS, OpenMP and FAISS: requests run in parallel, and more threads would compete for cores."""
    threadpool_limits(1)
    load_faiss().omp_set_num_threads(1)


class _Server(uvicorn.Server):
    """uvicorn's server that announces its address and ends with status 0 after a signal."""

    def __init__(self, config: uvicorn.Config, names: str, announce: Callable[[str], None]) -> None:
        super().__init__(config)
        self._names = names
        self._announce = announce

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts listening and announces the address."""
        await super().startup(sockets)
        if self.servers:
            host, port = self.servers[0].sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            self._announce(f"kernelsearch: {self._names} at http://{shown}:{port}/")

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stops on SIGINT and SIGTERM after running requests. uvicorn would raise the signal again, and exit with an error."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
