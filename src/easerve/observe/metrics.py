"""What is measured of requests, as Prometheus metrics; all times are seconds.

The names end as those of other servers do, so that dashboards need only another prefix.
"""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

TTFT_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 1.5, 2, 3, 5, 7.5, 10, 20, 40, 80)
ITL_BUCKETS = (0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5)
DURATION_BUCKETS = (0.01, 0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 240)


class RequestMetrics:
    """The HTTP layer's metrics, in `registry`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.registry = registry
        self.time_to_first_token = Histogram(
            "easerve_time_to_first_token_seconds",
            "From a request's arrival to its first token.",
            buckets=TTFT_BUCKETS,
            registry=registry,
        )
        self.inter_token_latency = Histogram(
            "easerve_inter_token_latency_seconds",
            "Between two tokens of one answer that follow one another.",
            buckets=ITL_BUCKETS,
            registry=registry,
        )
        self.request_duration = Histogram(
            "easerve_request_duration_seconds",
            "From a request's arrival to the end of its response.",
            ("endpoint",),
            buckets=DURATION_BUCKETS,
            registry=registry,
        )
        self.requests = Counter(
            "easerve_requests",
            "Responses by status; 499: the client left first; for a stream that broke off, the status of the error.",
            ("endpoint", "status"),
            registry=registry,
        )
        self.in_flight = Gauge("easerve_requests_in_flight", "Requests being answered.", registry=registry)
        self.prompt_tokens = Counter(
            "easerve_prompt_tokens", "Tokens of prompts, those of pictures included.", registry=registry
        )
        self.generation_tokens = Counter("easerve_generation_tokens", "Tokens generated.", registry=registry)
