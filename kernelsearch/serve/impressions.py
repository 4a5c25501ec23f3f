"""Protection of the click log: clicks refer to lists that this server has sent, and clients may send few per minute.

A list is signed with a key that is made when the server starts. Its token goes to the client with the list and comes back with
a click; nothing about lists is stored meanwhile.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from base64 import b64decode, urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Sequence

import orjson

from kernelsearch.serve.gate import Refused

#: Documents of a list that a token signs and a click may name: the maximum that a click log stores per impression.
MAX_SIGNED = 100
#: Seconds after which a token is refused.
LIFETIME = 24 * 3600
#: Bytes of a token's beginning (time and random number), and of its signature. Multiples of 3 need no padding in base64.
TIME_BYTES, HEAD_BYTES, SIGNATURE_BYTES = 5, 15, 15
#: Clients whose rate is remembered.
MAX_CLIENTS = 10_000
#: Shown lists whose clicks are remembered, so that a repeated click is counted once.
MAX_CLICKED = 10_000


class Impressions:
    """Signs lists and checks the tokens that come back.

    A list is what the `index` of that name answered to `query`: its `docids`, best first. `clicked` has the clicks on the
    latest lists.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self.clicked = ClickedLists()

    def issue(self, index: str, query: str, docids: Sequence[str]) -> str:
        """The token of a list that is sent to a client; every call returns another one."""
        head = int(time.time()).to_bytes(TIME_BYTES, "big") + secrets.token_bytes(HEAD_BYTES - TIME_BYTES)
        return urlsafe_b64encode(head + self._signature(head, index, query, docids)).decode()

    def check(self, token: str, index: str, query: str, docids: Sequence[str]) -> None:
        """Raises Refused where the token does not belong to this list, or is too old."""
        try:
            raw = _decode(token)
        except ValueError:
            raise Refused(400, "impression: not a token of this server") from None
        head, signature = raw[:HEAD_BYTES], raw[HEAD_BYTES:]
        if not hmac.compare_digest(signature, self._signature(head, index, query, docids)):
            raise Refused(400, "impression: this server has not sent this list for this query")
        if time.time() - int.from_bytes(head[:TIME_BYTES], "big") > LIFETIME:
            raise Refused(400, "impression: the list is too old; search again")

    def _signature(self, head: bytes, index: str, query: str, docids: Sequence[str]) -> bytes:
        signed = head + orjson.dumps([index, query, list(docids[:MAX_SIGNED])])
        return hmac.new(self._key, signed, hashlib.sha256).digest()[:SIGNATURE_BYTES]


class ClickedLists:
    """The documents that were clicked in the latest lists, by the token of the list. Thread-safe.

    It is kept by the server and not by an index, whose state may be replaced between two clicks on a list.
    """

    def __init__(self) -> None:
        self._clicked: OrderedDict[str, frozenset[str]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, token: str) -> frozenset[str] | None:
        """The documents of a list that were clicked; None for a list that is not in the log."""
        with self._lock:
            return self._clicked.get(token)

    def add(self, token: str, docid: str | None) -> None:
        """Adds a click on `docid`, or a list without a click."""
        with self._lock:
            self._clicked[token] = self._clicked.pop(token, frozenset()) | ({docid} if docid is not None else frozenset())
            if len(self._clicked) > MAX_CLICKED:
                self._clicked.popitem(last=False)


class ClientRates:
    """How often each client may do something, `per_minute` times: a token bucket per client, full at first. Thread-safe."""

    def __init__(self, per_minute: int) -> None:
        self.per_minute = per_minute
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # client: (what is left, at which time)
        self._lock = threading.Lock()

    def take(self, client: str) -> bool:
        """Counts one action of a client; False where it has to wait."""
        now = time.monotonic()
        with self._lock:
            left, before = self._buckets.pop(client, (float(self.per_minute), now))
            left = min(self.per_minute, left + (now - before) * self.per_minute / 60)
            allowed = left >= 1
            self._buckets[client] = (left - allowed, now)
            if len(self._buckets) > MAX_CLIENTS:
                self._buckets.popitem(last=False)
        return allowed


def _decode(token: str) -> bytes:
    raw = b64decode(token.encode("ascii"), altchars=b"-_", validate=True)
    if len(raw) != HEAD_BYTES + SIGNATURE_BYTES:
        raise ValueError
    return raw
