"""Counts and times of requests in Prometheus's text format."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class _Registry(CollectorRegistry):
    """Without the `_created` series, which would double the number of time series. The library's own switch is global."""

    def collect(self) -> Iterable[Metric]:
        for family in super().collect():
            family.samples = [sample for sample in family.samples if not sample.name.endswith("_created")]
            yield family


class Metrics:
    """The metrics of one server: requests by endpoint and status, their times, the present load, recorded clicks.

    Attributes: `in_flight`, the number of requests without an answer; `clicks`, a counter of recorded clicks.
    """

    def __init__(self, busy: Callable[[], int]) -> None:
        """`busy` returns the number of requests that run in a thread or wait for one."""
        self._registry = _Registry()
        self._requests = self._counter("requests_total", "Requests answered, by endpoint and status.", "endpoint", "status")
        self._seconds = Histogram(
            "kernelsearch_request_seconds",
            "Time from the first byte of a request to the last byte of its answer.",
            ["endpoint"],
            buckets=BUCKETS,
            registry=self._registry,
        )
        self.in_flight = 0
        self._gauge("in_flight", "Requests without an answer yet.").set_function(lambda: self.in_flight)
        self._gauge("working", "Requests that run in a thread or wait for one.").set_function(busy)
        #: Counters of answers with one status.
        self._by_status = {
            503: self._counter("refused_total", "Requests refused because the queue was full."),
            504: self._counter("late_total", "Requests that timed out."),
        }
        self.clicks = self._counter("clicks_total", "Clicks added to click logs.")
        #: The series of an endpoint and a status: looking them up by their labels takes longer than adding to them.
        self._series: dict[tuple[str, int], tuple[Counter, Histogram]] = {}

    def _counter(self, name: str, help: str, *labels: str) -> Counter:
        return Counter(f"kernelsearch_{name}", help, labels, registry=self._registry)

    def _gauge(self, name: str, help: str) -> Gauge:
        return Gauge(f"kernelsearch_{name}", help, registry=self._registry)

    def done(self, endpoint: str, status: int, seconds: float) -> None:
        """Counts an answered request: the path template of its route, its HTTP status, and the `seconds` that it took."""
        if (endpoint, status) not in self._series:
            self._series[endpoint, status] = self._requests.labels(endpoint, status), self._seconds.labels(endpoint)
        requests, times = self._series[endpoint, status]
        requests.inc()
        times.observe(seconds)
        if status in self._by_status:
            self._by_status[status].inc()

    def text(self) -> bytes:
        """All metrics in the exposition format, version 0.0.4."""
        return generate_latest(self._registry)
