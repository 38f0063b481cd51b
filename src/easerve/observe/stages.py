"""What the pipeline and its workers do, as Prometheus metrics. Seconds, bytes, tokens.

Events are counted as they happen (`StageMetrics`); states are read when somebody asks (`StateCollector`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from easerve.observe.metrics import DURATION_BUCKETS, ITL_BUCKETS
from easerve.pipeline.observer import Observer, Where
from easerve.pipeline.timing import ItemTimes, RequestTimes
from easerve.request import PrefillTimes

BATCH_BUCKETS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)


class StageMetrics(Observer):
    """Counts what the pipeline tells of. `slo_ttft` and `slo_tpot` (seconds) say what counts as good."""

    def __init__(self, registry: CollectorRegistry, slo_ttft: float | None, slo_tpot: float | None) -> None:
        self._slo_ttft = slo_ttft
        self._slo_tpot = slo_tpot

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"easerve_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
            return Histogram(f"easerve_{name}", text, labels, buckets=buckets, registry=registry)

        self._batch_items = histogram("encode_batch_items", "Media items of an encode batch.", BATCH_BUCKETS, "worker")
        self._batch_seconds = histogram("encode_batch_seconds", "Encoding a batch.", ITL_BUCKETS, "worker")
        self._encoded_tokens = counter("encoded_tokens", "Embedding tokens made.", "worker")
        self._encode_wait = histogram("encode_wait_seconds", "An item's wait for its encode to start.", ITL_BUCKETS)
        self._items = counter("media_items", "Media items by where their embedding came from.", "source")
        self._routed = counter("prefill_routed", "Media requests by where they are prefilled.", "where")
        self._sequence_wait = histogram(
            "sequence_wait_seconds", "A sequence's wait for its first step on a worker.", ITL_BUCKETS, "stage", "worker"
        )
        self._redone = counter("work_redone", "Work that was lost and done again.", "stage")
        self._hand_overs = counter("kv_hand_overs", "Sequences handed from prefill to decode.")
        self._hand_over_bytes = counter("kv_hand_over_bytes", "Keys and values handed over.")
        self._hand_over_seconds = histogram(
            "kv_hand_over_seconds", "From the prefill worker's KV to the decode worker's first token.", ITL_BUCKETS
        )
        self._tpot = histogram("time_per_output_token_seconds", "Of a request, after its first token.", ITL_BUCKETS)
        self._e2e = histogram("request_seconds", "From arrival to the last token.", DURATION_BUCKETS)
        self._good = counter("requests_within_objectives", "Finished requests by whether they met them.", "met")

    def batch_encoded(self, worker: str, items: int, tokens: int, seconds: float) -> None:
        self._batch_items.labels(worker).observe(items)
        self._batch_seconds.labels(worker).observe(seconds)
        self._encoded_tokens.labels(worker).inc(tokens)

    def item_encoded(self, times: ItemTimes) -> None:
        self._items.labels(times.source).inc()
        if times.source == "encoded":
            self._encode_wait.observe(times.queue)

    def prefill_routed(self, where: Where) -> None:
        self._routed.labels(where).inc()

    def first_token(self, stage: str, times: PrefillTimes) -> None:
        self._sequence_wait.labels(stage, times.worker).observe(times.queue)

    def redone(self, stage: str) -> None:
        self._redone.labels(stage).inc()

    def handed_over(self, nbytes: int, seconds: float) -> None:
        self._hand_overs.inc()
        self._hand_over_bytes.inc(nbytes)
        self._hand_over_seconds.observe(seconds)

    def finished(self, times: RequestTimes) -> None:
        if times.tpot is not None:
            self._tpot.observe(times.tpot)
        if times.last_token is not None:
            self._e2e.observe(times.last_token - times.received)
        if self._slo_ttft is not None or self._slo_tpot is not None:
            met = _within(times.ttft, self._slo_ttft) and _within(times.tpot, self._slo_tpot)
            self._good.labels("yes" if met else "no").inc()


def _within(value: float | None, objective: float | None) -> bool:
    return value is None or objective is None or value <= objective


Reading = Mapping[tuple[str, ...], float]  # label values -> value


class StateCollector(Collector):
    """States: each gauge and counter is read by a function when the metrics are asked for."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._sources: list[Callable[[], Metric]] = []
        registry.register(self)

    def gauge(self, name: str, text: str, read: Callable[[], Reading], *labels: str) -> None:
        self._sources.append(lambda: _filled(GaugeMetricFamily(f"easerve_{name}", text, labels=labels), read()))

    def counter(self, name: str, text: str, read: Callable[[], Reading], *labels: str) -> None:
        self._sources.append(lambda: _filled(CounterMetricFamily(f"easerve_{name}", text, labels=labels), read()))

    def collect(self) -> Iterator[Metric]:
        for source in self._sources:
            yield source()

    def describe(self) -> list[Metric]:
        """Nothing is read at registration: the parts may not be there yet."""
        return []


def _filled(family: GaugeMetricFamily | CounterMetricFamily, readings: Reading) -> Metric:
    for labels, value in readings.items():
        family.add_metric(labels, value)
    return family
