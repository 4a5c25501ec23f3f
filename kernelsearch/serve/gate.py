"""What every request passes first: who may call, how much they may send, headers of all answers, counts and times."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from kernelsearch.serve.metrics import Metrics
from kernelsearch.serve.settings import Settings

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

#: The page loads nothing from elsewhere and runs no script that stands in a document's or a query's text.
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
#: Open without a key: the page, which asks for one, and the sign of life.
OPEN = ("/", "/health")


class Refused(Exception):
    """A request that goes no further: status and one line why."""

    def __init__(self, status: int, why: str) -> None:
        super().__init__(why)
        self.status = status


class Gate:
    """An ASGI application around another one."""

    def __init__(self, app: Any, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self._key = settings.api_key.encode() if settings.api_key is not None else None

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        began, status = time.perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                named = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in HEADERS if pair[0] not in named)]
            await send(message)

        self.metrics.in_flight.inc()
        try:
            headers = dict(scope["headers"])
            self._check(scope, headers)
            await self.app(scope, self._counted(receive) if scope["method"] == "POST" else receive, sending)
        except Refused as refused:
            await refuse(sending, refused.status, str(refused))
        finally:
            self.metrics.in_flight.dec()
            self.metrics.done(_endpoint(scope), status, time.perf_counter() - began)

    def _check(self, scope: MutableMapping[str, Any], headers: dict[bytes, bytes]) -> None:
        hosts = self.settings.hosts
        if hosts is not None:
            # A page elsewhere whose name was made to lead to this machine calls with that name.
            name = headers.get(b"host", b"").decode("latin-1").lower()
            name = name[: name.index("]") + 1] if name.startswith("[") and "]" in name else name.partition(":")[0]
            if name not in hosts:
                raise Refused(421, "Host: this server answers on this machine only, under its own names")
        path = scope["path"]
        if self._key is not None and path not in OPEN and not path.startswith("/page/"):
            given = headers.get(b"x-api-key") or headers.get(b"authorization", b"").removeprefix(b"Bearer ")
            if not hmac.compare_digest(given, self._key):
                raise Refused(401, "an API key is needed: send it as X-API-Key, or as Authorization: Bearer KEY")
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length) > self.settings.limits.body:
            raise Refused(413, f"the body is larger than {self.settings.limits.body} bytes")

    def _counted(self, receive: Receive) -> Receive:
        """Bodies without a declared length are counted as they come in."""
        size, most = 0, self.settings.limits.body

        async def receiving() -> Message:
            nonlocal size
            message = await receive()
            size += len(message.get("body", b""))
            if size > most:
                raise Refused(413, f"the body is larger than {most} bytes")
            return message

        return receiving


async def refuse(send: Send, status: int, why: str) -> None:
    """Answers with an error."""
    body = orjson.dumps({"error": why})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _endpoint(scope: MutableMapping[str, Any]) -> str:
    """The route's template: addresses themselves would make a new count for every document."""
    route = scope.get("route")
    return str(getattr(route, "path_format", None) or getattr(route, "path", None) or "other")
