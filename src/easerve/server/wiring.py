"""From a deployment to a pipeline, and from workers that come and go to its pools."""

from __future__ import annotations

import logging
from typing import Protocol

from easerve.config import Deployment
from easerve.pipeline.cache import EmbeddingCache
from easerve.pipeline.encode import EncodePolicy, EncodePool
from easerve.pipeline.observer import Observer
from easerve.pipeline.pipeline import Deadlines, Pipeline
from easerve.pipeline.pool import Pool
from easerve.pipeline.sequence import Pools
from easerve.pipeline.stages import Buffers, EncodeStage, GenerateStage
from easerve.policy.admission import Admission
from easerve.policy.arrivals import ArrivalRate
from easerve.policy.batching import Batcher, make_rule
from easerve.policy.beginnings import MOST_BLOCKS
from easerve.policy.cache import ByteLRU
from easerve.policy.offload import make_offload
from easerve.policy.placement import PLACEMENTS
from easerve.policy.service import ServiceTime
from easerve.policy.slack import Slack
from easerve.workers.client import WorkerClient
from easerve.workers.remote_pictures import PicturePool

logger = logging.getLogger(__name__)


def make_pipeline(
    deployment: Deployment, buffers: Buffers, observer: Observer, room: int | None, encode_tokens: int | None
) -> Pipeline:
    """A pipeline without workers yet. `room`: bytes left where embeddings lie; `encode_tokens`: most in a batch.

    None stands for no bound.
    """
    encode_pool = EncodePool(_encode_policy(deployment, encode_tokens), buffers, observer)
    place = PLACEMENTS[deployment.placement]
    remembered = MOST_BLOCKS if deployment.prefix_cache else 0
    seconds = deployment.request_timeout
    return Pipeline(
        encode_pool=encode_pool,
        pools=Pools(
            prefill=Pool("prefill", place(), remembered),
            local=Pool("local prefill", place(), remembered),
            decode=Pool("decode", place()),
        ),
        cache=EmbeddingCache(encode_pool, ByteLRU(_cache_bytes(deployment, room))),
        admission=Admission(deployment.max_requests),
        offload=make_offload(deployment.offload, deployment.remote_ratio),
        slack=Slack(deployment.slo_ttft),
        buffers=buffers,
        deadlines=Deadlines(encode=seconds, first_token=seconds, next_token=seconds),
        observer=observer,
    )


def _cache_bytes(deployment: Deployment, room: int | None) -> int:
    """What was asked for, or half of the room if that is less: requests need memory too."""
    wanted = int(deployment.embedding_cache_gb * 2**30)
    if room is None or wanted <= room // 2:
        return wanted
    logger.warning("the embedding cache gets %.2f GiB, half of what shared memory has left", room / 2**31)
    return room // 2


def _encode_policy(deployment: Deployment, tokens: int | None) -> EncodePolicy:
    arrivals = ArrivalRate(configured_rate=deployment.arrival_rate)
    service = ServiceTime()
    rule = make_rule(deployment.batching, deployment.batch_options, arrivals, service)
    return EncodePolicy(
        batcher=Batcher(rule, deployment.encode_batch, tokens),
        arrivals=arrivals,
        service=service,
        placement=PLACEMENTS[deployment.placement](),
        max_queue=deployment.max_encode_queue,
    )


class StageWorker(EncodeStage, GenerateStage, Protocol):
    """A worker whatever it is made of; of its methods, those of its `stages` are called."""

    stages: tuple[str, ...]


class Shifts:
    """Brings workers into the pools of their stages, and takes them out."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._encode = pipeline.encode_pool
        self._cache = pipeline.cache
        self._pools = pipeline.pools

    def worker_up(self, worker: StageWorker) -> None:
        stages = worker.stages
        if "encode" in stages:
            self._encode.add_worker(worker)
        if "prefill" in stages:
            beside_encode = "encode" in stages and not worker.decodes
            (self._pools.local if beside_encode else self._pools.prefill).add_worker(worker)
        if worker.decodes:
            self._pools.decode.add_worker(worker)

    def worker_lost(self, name: str, *, returns: bool) -> None:
        for pool in (self._encode, self._pools.prefill, self._pools.local, self._pools.decode):
            pool.remove_worker(name, returns=returns)
        self._cache.lose(name)


class Staff:
    """Likewise for worker processes, which load pictures too where they encode."""

    def __init__(self, pipeline: Pipeline, pictures: PicturePool) -> None:
        self._shifts = Shifts(pipeline)
        self._pictures = pictures

    def worker_up(self, worker: WorkerClient) -> None:
        self._shifts.worker_up(worker)
        if "encode" in worker.stages:
            self._pictures.add_worker(worker)

    def worker_lost(self, name: str, *, returns: bool) -> None:
        self._pictures.remove_worker(name, returns=returns)
        self._shifts.worker_lost(name, returns=returns)
