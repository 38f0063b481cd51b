"""What vLLM says when it does not start, in the names of EAServe's options."""

from __future__ import annotations

from dataclasses import field
from typing import Any

import pytest
from pydantic import ValidationError
from pydantic.dataclasses import dataclass

from easerve.engine.vllm.reasons import check_names, reason


@dataclass
class Config:
    """As vLLM's are made."""

    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if len(self.sizes) > 1:
            raise ValueError("max_num_batched_tokens (1) must be at least max_num_seqs (2)")


@pytest.mark.parametrize(
    ("fields", "told"),
    [
        ({"sizes": ["x"]}, "sizes.0='x': Input should be a valid integer, unable to parse string as an integer"),
        ({"sizes": [1, 2]}, "--max-batched-tokens (1) must be at least --max-sequences (2)"),
    ],
)
def test_a_value_that_is_refused(fields: dict[str, Any], told: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Config(**fields)
    assert reason(refused.value, {}) == told


@pytest.mark.parametrize(
    ("given", "remedy"), [({"kv_cache_memory_bytes": 1}, "--kv-cache-gb"), ({}, "`gpu_memory_utilization`")]
)
def test_advice_names_the_option_that_has_an_effect(given: dict[str, int], remedy: str) -> None:
    said = "Cannot auto-fit max_model_len: not enough memory. Try increasing `gpu_memory_utilization`."
    wanted = f"Cannot auto-fit --max-model-len: not enough memory. Try increasing {remedy}."
    assert reason(ValueError(said), given) == wanted


def test_a_name_that_vllm_does_not_know() -> None:
    known = ["enforce_eager", "block_size"]
    check_names({"block_size": 32}, known)
    with pytest.raises(ValueError, match=r"--engine-args enforce_eagr: .* did you mean enforce_eager"):
        check_names({"block_size": 32, "enforce_eagr": True}, known)
