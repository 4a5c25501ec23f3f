"""The outermost ASGI layer: host and key checks, limits on bodies, security headers, metrics."""

from __future__ import annotations

import hmac
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from kernelsearch.serve.metrics import Metrics
from kernelsearch.serve.settings import ServiceSettings

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

#: The page loads nothing from other hosts and runs no script in the text of a document or a query.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
#: The files of the page are compared with the server's before each use: browsers would mix those of two versions otherwise.
PAGE_HEADERS = (*HEADERS, (b"cache-control", b"no-cache"))
#: Answers contain tokens and what may need a key: no proxy may store them.
ANSWER_HEADERS = (*HEADERS, (b"cache-control", b"no-store"))
#: A Host header: a name or an address, and perhaps a port.
HOST = re.compile(rb"([a-z0-9._-]+|\[[0-9a-f:.]+\])(?::[0-9]{1,5})?")
#: The scheme of an Authorization header, whose case is free.
SCHEME = re.compile(rb"\Abearer +", re.IGNORECASE)
#: Paths that need no key: the pages, which contain no data, and the health check.
OPEN_PATHS = ("/", "/docs", "/health")


#: Status in the metrics of a request whose client closed the connection before the body was complete, as nginx counts it.
CLIENT_CLOSED = 499
#: Digits of a Content-Length that can be a number of bytes; Python refuses to convert thousands of digits.
MAX_DIGITS = 18


class Disconnected(Exception):
    """The client closed the connection before the body was complete; there is nobody to answer."""


class Refused(Exception):
    """A request that is answered with an error: an HTTP status and a message of one line."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Gate:
    """An ASGI application around `app`, which gets the requests that pass the checks of `settings`; counted by `metrics`."""

    def __init__(self, app: Application, settings: ServiceSettings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._key = settings.api_key.encode() if settings.api_key is not None else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        start, status = time.perf_counter(), 500
        head = scope["method"] == "HEAD"
        if head and not scope["path"].startswith("/mcp"):
            scope = {**scope, "method": "GET"}  # the same answer without its body
        headers_to_add = PAGE_HEADERS if _is_page(scope["path"]) else ANSWER_HEADERS

        async def send_with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                present = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in headers_to_add if pair[0] not in present)]
            elif head:
                message = {**message, "body": b""}
            await send(message)

        self.metrics.in_flight += 1
        try:
            headers = dict(scope["headers"])
            self._check(scope, headers)
            if scope["method"] == "POST":
                receive = await self._read_body(receive, self._max_body(scope["path"]))
            await self.app(scope, receive, send_with_headers)
        except Disconnected:
            status = CLIENT_CLOSED
        except Refused as refused:
            await refuse(send_with_headers, refused.status, str(refused))
        finally:
            self.metrics.in_flight -= 1
            self.metrics.done(_endpoint(scope), status, time.perf_counter() - start)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raises Refused for a request from another host name, without the key, or with too large a body."""
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            raise Refused(400, "Host: sent more than once")
        hosts = self.settings.hosts
        if hosts is not None:
            # DNS rebinding: a page of another site whose name resolves to this machine sends that name.
            match = HOST.fullmatch(headers.get(b"host", b"").lower())
            if match is None or match[1].decode() not in hosts:
                raise Refused(421, "Host: this server accepts requests only under its own host names (--host-names adds some)")
        path = scope["path"]
        if self._key is not None and not _is_page(path):
            key = headers.get(b"x-api-key") or SCHEME.sub(b"", headers.get(b"authorization", b""))
            if not hmac.compare_digest(key, self._key):
                raise Refused(401, "an API key is needed: send it as X-API-Key, or as Authorization: Bearer KEY")
        length, most = headers.get(b"content-length", b"0"), self._max_body(path)
        if not length.isdigit() or len(length) > MAX_DIGITS or int(length) > most:
            raise Refused(413, f"the body is larger than {most} bytes")

    def _max_body(self, path: str) -> int:
        limits = self.settings.limits
        return limits.documents_body if self.settings.allow_updates and path.endswith("/documents") else limits.body

    async def _read_body(self, receive: Receive, limit: int) -> Receive:
        """Reads the whole body, whose length may not be declared; returns a `receive` that begins with it.

        The application so never sees a body that ends too soon, which its libraries report with a traceback per request.
        """
        body, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Disconnected
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > limit:
                raise Refused(413, f"the body is larger than {limit} bytes")
        unread: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

        async def receive_after_body() -> Message:
            return unread.pop() if unread else await receive()

        return receive_after_body


async def refuse(send: Send, status: int, message: str) -> None:
    """Answers with the HTTP `status` and a `message` as JSON, by the ASGI function `send`."""
    body = orjson.dumps({"error": message})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _is_page(path: str) -> bool:
    return path in OPEN_PATHS or path.startswith("/page/")


def _endpoint(scope: Scope) -> str:
    """The path template of the request's route: paths themselves would make one time series per document."""
    route = scope.get("route")
    return str(getattr(route, "path_format", None) or getattr(route, "path", None) or "other")
