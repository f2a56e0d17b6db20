"""The page of metrics: read from facts whenever Prometheus asks, served by its own client library."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ingest.observe.metrics import METRICS, Facts


class _Drawn(Collector):
    """All of :data:`METRICS`, from facts as they are at the moment of asking."""

    def __init__(self, look: Callable[[], Facts]) -> None:
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """A family per metric; one without any value is on the page with its meaning alone."""
        facts = self._look()
        for metric in METRICS:
            family = CounterMetricFamily if metric.kind == "counter" else GaugeMetricFamily
            found = family(metric.name, metric.meaning, labels=metric.labels)
            for labels, value in sorted(metric.read(facts).items()):
                found.add_metric(labels, value)
            yield found

    def describe(self) -> Iterator[Metric]:
        """Nothing is asked before there are facts."""
        yield from ()


class MetricsPage:
    """Served until closed. ``port``: 0 for any that is free. Raises ``OSError`` when the port is taken."""

    def __init__(self, look: Callable[[], Facts], port: int, address: str) -> None:
        registry = CollectorRegistry()
        registry.register(_Drawn(look))
        self._server, self._thread = start_http_server(port, address, registry)

    @property
    def port(self) -> int:
        """Where it is served."""
        return int(self._server.server_port)

    def close(self) -> None:
        """Serve no more, and give the port back."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
