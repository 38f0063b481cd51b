"""How other servers go about it, as settings of this one, so that each comparison is a change of configuration.

What they do is theirs (documentation and sources of vLLM 0.33 and Dynamo 1.6); that these settings stand for it is our
reading. They share our pipeline's other parts (one queue in front of encode, a bounded cache), which flatters them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from easerve.config import Deployment
from easerve.config.deployment import STEP_TOKENS
from easerve.errors import BadRequest

_WHATEVER_IS_QUEUED = {"batching": "greedy", "encode_batch": 64, "placement": "round_robin"}

PEERS: Mapping[str, Mapping[str, Any]] = {
    # encode in the loop that prefills and decodes, whatever is queued at a step
    "vllm": {"topology": "aggregated", **_WHATEVER_IS_QUEUED},
    # an encode worker ahead of prefill and decode, both fed in turn
    "vllm-epd": {"topology": "e-pd", **_WHATEVER_IS_QUEUED},
    # an encode worker that takes one item per forward, ahead of prefill and decode, all fed in turn
    "dynamo": {"topology": "e-pd", "batching": "greedy", "encode_batch": 1, "placement": "round_robin"},
}


def as_peer(deployment: Deployment, peer: str) -> Deployment:
    """The deployment run as the peer would. Its numbers of workers and its limits stay, and the workers of a list their
    stages. Raises BadRequest for a name that is none."""
    if peer not in PEERS:
        raise BadRequest(f"no peer is called {peer!r}; there are {', '.join(PEERS)}")
    settings = dict(PEERS[peer])
    if deployment.workers:
        del settings["topology"]
    return deployment.model_copy(
        update={"max_batched_tokens": deployment.max_batched_tokens or STEP_TOKENS, **settings}
    )
