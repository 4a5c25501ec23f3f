"""Counts and times of requests in Prometheus's text form."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Requests by endpoint and status, their times, what runs now, what was refused."""

    def __init__(self, busy: Callable[[], int]) -> None:
        self._busy = busy
        self._lock = threading.Lock()
        self._requests: Counter[tuple[str, int]] = Counter()
        self._buckets: dict[str, list[int]] = {}
        self._seconds: Counter[str] = Counter()
        self.in_flight = 0
        self.clicks = 0

    def done(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts an answered request."""
        with self._lock:
            self._requests[endpoint, status] += 1
            self._seconds[endpoint] += seconds  # type: ignore[assignment]
            buckets = self._buckets.setdefault(endpoint, [0] * (len(BUCKETS) + 1))
            buckets[next((place for place, most in enumerate(BUCKETS) if seconds <= most), len(BUCKETS))] += 1

    def text(self) -> str:
        """The exposition format, version 0.0.4."""
        with self._lock:
            requests, seconds = dict(self._requests), dict(self._seconds)
            buckets = {endpoint: list(counts) for endpoint, counts in self._buckets.items()}
        out = _head("requests_total", "counter", "Requests answered, by endpoint and status.")
        out += [f'kernelsearch_requests_total{{endpoint="{e}",status="{s}"}} {n}' for (e, s), n in sorted(requests.items())]
        out += _head("request_seconds", "histogram", "Time from a request's first byte to its answer's last.")
        for endpoint, counts in sorted(buckets.items()):
            below = 0
            for most, count in zip((*map(str, BUCKETS), "+Inf"), counts, strict=True):
                below += count
                out.append(f'kernelsearch_request_seconds_bucket{{endpoint="{endpoint}",le="{most}"}} {below}')
            out.append(f'kernelsearch_request_seconds_sum{{endpoint="{endpoint}"}} {seconds[endpoint]:.6f}')
            out.append(f'kernelsearch_request_seconds_count{{endpoint="{endpoint}"}} {below}')
        refused = sum(count for (_, status), count in requests.items() if status == 503)
        late = sum(count for (_, status), count in requests.items() if status == 504)
        for name, kind, told, value in (
            ("in_flight", "gauge", "Requests that have no answer yet.", self.in_flight),
            ("working", "gauge", "Requests that a thread works on or that wait for one.", self._busy()),
            ("refused_total", "counter", "Requests refused because too many waited.", refused),
            ("late_total", "counter", "Requests given up because they took too long.", late),
            ("clicks_total", "counter", "Clicks added to click logs.", self.clicks),
        ):
            out += [*_head(name, kind, told), f"kernelsearch_{name} {value}"]
        return "\n".join(out) + "\n"


def _head(name: str, kind: str, told: str) -> list[str]:
    return [f"# HELP kernelsearch_{name} {told}", f"# TYPE kernelsearch_{name} {kind}"]
