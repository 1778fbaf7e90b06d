"""What the server counts, for Prometheus.

Labels never come from a request: endpoints are the routes of the server, statuses and codes its own, so the number of
series is bounded.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ROWS = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0)

disable_created_metrics()  # type: ignore[no-untyped-call]


class Metrics:
    """All families of one server; `in_flight` is read when they are asked for."""

    def __init__(self, in_flight: Callable[[], float]) -> None:
        own = self.registry = CollectorRegistry()
        self.requests = Counter("llrnn_requests", "Requests answered.", ["endpoint", "status"], registry=own)
        self.seconds = Histogram(
            "llrnn_request_seconds", "Seconds to answer.", ["endpoint"], buckets=_SECONDS, registry=own
        )
        self.refused = Counter("llrnn_refused", "Requests that were refused, by code.", ["code"], registry=own)
        self.rows = Histogram("llrnn_step_rows", "Sequences in a step of a model.", buckets=_ROWS, registry=own)
        self.step_seconds = Histogram(
            "llrnn_step_seconds", "Seconds of a step of a model.", buckets=_SECONDS, registry=own
        )
        self.words = Counter("llrnn_words_generated", "Words generated.", registry=own)
        Gauge("llrnn_requests_in_flight", "Requests that are worked on.", registry=own).set_function(in_flight)
        ProcessCollector(registry=own)

    def answer(self, endpoint: str, status: str, seconds: float) -> None:
        """Count a request that was answered."""
        self.requests.labels(endpoint, status).inc()
        self.seconds.labels(endpoint).observe(seconds)

    def refuse(self, code: str) -> None:
        """Count a request that was refused."""
        self.refused.labels(code).inc()

    def step(self, rows: int, seconds: float) -> None:
        """Count a step of a model."""
        self.rows.observe(rows)
        self.step_seconds.observe(seconds)

    def text(self) -> bytes:
        """All of them in the text format (version 0.0.4)."""
        return generate_latest(self.registry)
