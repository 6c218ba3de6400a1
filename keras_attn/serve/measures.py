"""What a server counts, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable


class Measures:
    """Counts requests, rows and batches, and measures the durations of requests.

    Example:

    >>> measures = Measures()
    >>> measures.request("films", "predict", 200, 0.01, 2)
    >>> 'keras_attn_rows_total{model="films"} 2.0' in measures.text().decode()
    True
    """

    def __init__(self) -> None:
        from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

        self._registry = CollectorRegistry()
        labels = ["model", "verb", "status"]
        self._requests = Counter("keras_attn_requests", "Requests", labels, registry=self._registry)
        self._seconds = Histogram(
            "keras_attn_request_seconds", "Seconds of a request", labels[:2],
            registry=self._registry,
        )  # fmt: skip
        self._rows = Counter(
            "keras_attn_rows", "Rows answered", labels[:1], registry=self._registry
        )
        self._batch = Histogram(
            "keras_attn_batch_rows", "Rows of a batch", labels[:1], registry=self._registry,
            buckets=(1, 2, 4, 8, 16, 32, 64),
        )  # fmt: skip
        self._waiting = Gauge(
            "keras_attn_waiting", "Rows that wait", labels[:1], registry=self._registry
        )

    def model(self, name: str, waiting: Callable[[], float]) -> Callable[[int], None]:
        """Adds a model; returns the function that counts its batches.

        Args:
            name: Name of the model.
            waiting: Function that returns the number of waiting rows.
        """
        self._waiting.labels(name).set_function(waiting)
        return self._batch.labels(name).observe

    def request(self, model: str, verb: str, status: int, seconds: float, rows: int = 0) -> None:
        """Counts a request with its HTTP status, duration and number of rows."""
        self._requests.labels(model, verb, str(status)).inc()
        self._seconds.labels(model, verb).observe(seconds)
        if rows:
            self._rows.labels(model).inc(rows)

    def text(self) -> bytes:
        """Returns all measures in Prometheus' text format."""
        from prometheus_client import generate_latest

        return generate_latest(self._registry)
