"""A KV connector of vLLM's that hands keys and values over as `KVState`, for whatever transfer to carry.

vLLM makes two of them, one beside its scheduler and one beside the model. Both live in this process, and so does the
engine, so that what is to be moved passes between them as it is. Nothing is asynchronous: keys and values are copied
out when a sequence ends, before its blocks are free, and copied in before the forward that needs them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1, KVConnectorMetadata
from vllm.v1.request import Request, RequestStatus

from easerve.engine.base import KVState
from easerve.engine.vllm.pages import Pages
from easerve.engine.vllm.positions import Positions


@dataclass
class Arrivals(KVConnectorMetadata):  # type: ignore[misc]
    """What to copy into the pool before a forward: (blocks, first token, keys and values)."""

    pages: Pages | None
    loads: list[tuple[list[int], int, KVState]] = field(default_factory=list)


class HandOverConnector(KVConnectorBase_V1):  # type: ignore[misc]
    """The engine's side: `bring` before a request is added, `take` when it has ended."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._brought: dict[str, KVState] = {}  # until the request ends: a preemption copies it in again
        self._wanted: dict[str, KVState | None] = {}
        self._pages: Pages | None = None
        self._loads: list[tuple[list[int], int, KVState]] = []
        self._positions: Positions | None = None

    def serve(self, pages: Pages, positions: Positions) -> None:
        self._pages = pages
        self._positions = positions

    def bring(self, request_id: str, kv: KVState) -> None:
        """`kv` lies in the host's memory, and is the connector's alone."""
        self._brought[request_id] = kv

    def want(self, request_id: str) -> None:
        """Have the keys and values kept when the request ends at its limit of tokens."""
        self._wanted[request_id] = None

    def take(self, request_id: str) -> KVState | None:
        return self._wanted.pop(request_id, None)

    # The scheduler's side

    def get_num_new_matched_tokens(self, request: Request, num_computed_tokens: int) -> tuple[int, bool]:
        kv = self._brought.get(request.request_id)
        return (0 if kv is None else max(0, kv.tokens - num_computed_tokens)), False

    def update_state_after_alloc(self, request: Request, blocks: Any, num_external_tokens: int) -> None:
        if num_external_tokens > 0:
            kv = self._brought[request.request_id]
            (own,) = blocks.get_block_ids()
            self._loads.append((own, kv.tokens - num_external_tokens, kv))

    def build_connector_meta(self, scheduler_output: Any) -> Arrivals:
        loads, self._loads = self._loads, []
        return Arrivals(self._pages, loads)

    def request_finished(self, request: Request, block_ids: list[int]) -> tuple[bool, dict[str, Any] | None]:
        self._brought.pop(request.request_id, None)
        if request.request_id in self._wanted:
            if request.status == RequestStatus.FINISHED_LENGTH_CAPPED:
                self._wanted[request.request_id] = self._read(request, block_ids)
            else:
                del self._wanted[request.request_id]
        return False, None

    def _read(self, request: Request, blocks: list[int]) -> KVState:
        assert self._pages is not None
        assert self._positions is not None
        covered = request.num_tokens - 1
        following = self._positions.after(request.prompt_token_ids, request.mm_features, covered)
        return KVState(self._pages.read(blocks, covered), following)

    # The model's side

    def start_load_kv(self, forward_context: Any, **named: Any) -> None:
        arrivals = self._get_connector_metadata()
        for blocks, start, kv in arrivals.loads:
            arrivals.pages.write(blocks, start, kv.keys_values)

    def wait_for_layer_load(self, layer_name: str) -> None: ...

    def save_kv_layer(self, layer_name: str, kv_layer: Any, attn_metadata: Any, **named: Any) -> None: ...

    def wait_for_save(self) -> None: ...
