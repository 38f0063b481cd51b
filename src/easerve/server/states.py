"""The states of a server's parts, named for `/metrics`."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from easerve.observe.stages import StateCollector
from easerve.pipeline.pipeline import Pipeline
from easerve.server.lines import Lines
from easerve.workers.messages import Heartbeat
from easerve.workers.supervisor import Supervisor

_WORKER_GAUGES = {
    "worker_resident_bytes": ("Memory of the process.", "resident_bytes"),
    "sequences_running": ("Sequences being prefilled or decoded.", "sequences_running"),
    "sequences_waiting": ("Sequences waiting in the engine.", "sequences_waiting"),
    "kv_blocks": ("Blocks of the KV pool.", "kv_blocks_total"),
    "kv_blocks_used": ("Blocks of the KV pool in use.", "kv_blocks_used"),
    "worker_buffers": ("Transfer buffers put by the worker and not yet released.", "buffers"),
    "encode_units": ("SMs or cores that the latest encode batch had to itself; 0: not partitioned.", "encode_units"),
}
_WORKER_COUNTERS = {
    "encode_busy_seconds": ("Time spent encoding; its rate is the busy fraction.", "encode_seconds"),
    "generate_busy_seconds": ("Time spent in engine steps; its rate is the busy fraction.", "generate_seconds"),
    "worker_items_encoded": ("Media items encoded.", "items_encoded"),
    "worker_prompt_tokens": ("Prompt tokens prefilled.", "prompt_tokens"),
    "prefix_cached_tokens": ("Prompt tokens that were not prefilled, as the prefix cache had them.", "cached_tokens"),
    "worker_output_tokens": ("Tokens generated.", "output_tokens"),
    "preemptions": ("Sequences that gave up their KV blocks.", "preemptions"),
    "encode_batches_apart": ("Encode batches that had a part of the device to themselves.", "batches_apart"),
    "partition_switches": ("Moves of a stage to another part of its device.", "partition_switches"),
    "tensors_opened": ("Tensors received from other processes.", "tensors_opened"),
    "transfer_bytes": ("Bytes of tensors put and opened.", "transfer_bytes"),
}


def collect_states(registry: CollectorRegistry, pipeline: Pipeline, supervisor: Supervisor, lines: Lines) -> None:
    """Each is read when the metrics are asked for."""
    states = StateCollector(registry)
    _collect_pipeline(states, pipeline)
    _collect_workers(states, supervisor, lines)


def _collect_pipeline(states: StateCollector, pipeline: Pipeline) -> None:
    """Queues, loads and the cache."""
    encode, cache, store, pools = pipeline.encode_pool, pipeline.cache, pipeline.cache.store, pipeline.pools
    states.gauge("requests_admitted", "Requests in the pipeline.", lambda: {(): pipeline.admission.in_flight})
    states.gauge("encode_queue_items", "Media items waiting for encode.", lambda: {(): encode.queue_length})
    states.gauge(
        "pending_tokens",
        "Tokens a worker still has to encode or prefill, or is decoding.",
        lambda: {
            (stage, name): load.pending_tokens
            for stage, pool in (
                ("encode", encode), ("prefill", pools.prefill), ("local prefill", pools.local), ("decode", pools.decode)
            )
            for name, load in pool.loads().items()
        },
        "stage",
        "worker",
    )  # fmt: skip
    states.counter("embedding_cache_hits", "Items found.", lambda: {(): store.hits})
    states.counter("embedding_cache_misses", "Items not found.", lambda: {(): store.misses})
    states.counter("embedding_cache_joins", "Items that joined an encode in flight.", lambda: {(): cache.joins})
    states.counter("embedding_cache_evictions", "Items evicted.", lambda: {(): store.evictions})
    states.gauge("embedding_cache_bytes", "Bytes held.", lambda: {(): store.bytes})
    states.gauge("embedding_cache_pinned", "Embeddings that requests are using.", lambda: {(): store.pinned})


def _collect_workers(states: StateCollector, supervisor: Supervisor, lines: Lines) -> None:
    """Processes and what they last said of themselves."""
    states.gauge(
        "workers_up", "1 for each worker that is up.", lambda: {(name,): 1 for name in supervisor.clients}, "worker"
    )
    states.counter(
        "worker_restarts",
        "Times a worker was started again.",
        lambda: {(name,): count for name, count in supervisor.restarts.items()},
        "worker",
    )
    states.gauge(
        "buffers",
        "Buffers of workers (embeddings, KV, pixels) held for requests and the cache.",
        lambda: {(): lines.ledger.live},
    )
    states.gauge("front_end_buffers", "Pixel buffers held.", lambda: {(): lines.transfer.buffers})
    for name, (text, field) in _WORKER_GAUGES.items():
        states.gauge(name, text, _reader(supervisor, field), "worker")
    for name, (text, field) in _WORKER_COUNTERS.items():
        states.counter(name, text, _reader(supervisor, field), "worker")


def _reader(supervisor: Supervisor, field: str) -> Callable[[], dict[tuple[str, ...], float]]:
    def read() -> dict[tuple[str, ...], float]:
        beats: dict[str, Heartbeat | None] = {
            name: client.last_heartbeat for name, client in supervisor.clients.items()
        }
        return {(name,): getattr(beat, field) for name, beat in beats.items() if beat is not None}

    return read
