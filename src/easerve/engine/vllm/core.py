"""vLLM's engine core in this process: requests in, outputs of a step out.

vLLM's own front ends (`AsyncLLM`, `LLM`) put a detokenizer and an event loop or a second process around the same two
parts, which a worker's stage thread does not need. Why so, and what it is measured to cost: docs/vllm.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vllm.config import VllmConfig
from vllm.model_executor.models.utils import extract_layer_index
from vllm.sampling_params import SamplingParams
from vllm.v1.engine import EngineCoreOutput
from vllm.v1.engine.core_client import InprocClient
from vllm.v1.engine.input_processor import InputProcessor
from vllm.v1.executor import Executor

from easerve.engine.vllm.draws import prepare

_TASKS = ("generate",)


class Core:
    """Used by one thread, except for `counts` and `blocks`."""

    def __init__(self, config: VllmConfig) -> None:
        self.config = config
        self.settle_draws = prepare(config)
        self._inputs = InputProcessor(config)
        self._client = InprocClient(config, Executor.get_class(config), log_stats=True)
        self._scheduler: Any = self._client.engine_core.scheduler
        self._forget_rendezvous()

    @property
    def model(self) -> Any:
        """The module, with its weights."""
        return self._worker.get_model()

    @property
    def connector(self) -> Any:
        """The scheduler's half of the KV connector, or None."""
        return self._scheduler.get_kv_connector()

    @property
    def attention_layers(self) -> list[Any]:
        """In the model's order; each has its part of the KV pool as `kv_cache`."""
        context = self.config.compilation_config.static_forward_context
        (group,) = self._scheduler.kv_cache_config.kv_cache_groups
        return [context[name] for name in sorted(group.layer_names, key=extract_layer_index)]

    @property
    def max_model_len(self) -> int:
        """Of prompt and answer: what the model and the KV pool can hold."""
        most: int = self.config.model_config.max_model_len
        return most

    def request(self, request_id: str, given: Any, params: SamplingParams) -> Any:
        """A request, checked by vLLM. Raises ValueError for what it refuses."""
        return self._inputs.process_inputs(request_id, given, params, _TASKS)

    def add(self, request: Any) -> None:
        self._client.add_request(request)

    def step(self) -> list[EngineCoreOutput]:
        """Raises whatever goes wrong while computing; then nothing can be said of what is in the engine: `clear` it."""
        outputs: list[EngineCoreOutput] = self._client.get_output().outputs
        return outputs

    def abort(self, request_ids: list[str]) -> None:
        self._client.abort_requests(request_ids)

    def clear(self, request_ids: list[str]) -> None:
        """Forget these, which must be all there are, and everything that a failed step may have left half done."""
        if (queue := self._client.engine_core.batch_queue) is not None:
            queue.clear()
        self.abort(request_ids)
        self._client.reset_prefix_cache()
        self._client.reset_encoder_cache()

    def counts(self) -> tuple[int, int]:
        """Requests that run and that wait."""
        running, waiting = self._scheduler.get_request_counts()
        return running, waiting

    def blocks(self) -> tuple[int, int]:
        """KV blocks in all and in use. One of vLLM's is never handed out."""
        pool = self._scheduler.kv_cache_manager.block_pool
        return pool.num_gpu_blocks - 1, pool.num_gpu_blocks - 1 - pool.get_num_free_blocks()

    def uncomputed(self, request_id: str) -> int:
        """Tokens of a request whose keys and values are still to be computed."""
        request = self._scheduler.requests.get(request_id)
        return 0 if request is None else max(0, request.num_tokens - request.num_computed_tokens)

    @property
    def _worker(self) -> Any:
        return self._client.engine_core.model_executor.driver_worker

    def _forget_rendezvous(self) -> None:
        """vLLM leaves the file behind through which the processes of a group find each other; here is one only."""
        scheme, _, path = str(getattr(self._worker.worker, "distributed_init_method", "")).partition("://")
        if scheme == "file":
            Path(path).unlink(missing_ok=True)
