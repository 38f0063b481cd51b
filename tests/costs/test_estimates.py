"""Costs by roofline, which are closed forms: what they must be, and how they move."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from easerve.costs.base import ChunkSize, ItemSize, StageCosts
from easerve.costs.hardware import all_hardware, find_hardware
from easerve.costs.links import make_link
from easerve.costs.make import make_costs
from easerve.costs.roofline import BANDWIDTH, LAUNCH, MATRICES
from easerve.costs.shapes.find import find_shape
from easerve.costs.sharing import Contention
from easerve.costs.work import Rates, Work, stretch
from easerve.errors import StartupError

MODELS = ("qwen2.5-vl-7b", "llava-v1.6-34b", "ultravox-27b", "qwen3.5-122b-a10b")
SLACK = 1 + 1e-9


def estimated(model: str = "qwen2.5-vl-7b", hardware: str = "h100", **more: Any) -> StageCosts:
    return make_costs(model, hardware, method="roofline", **more)


def decoding(sequences: int, context: int) -> list[ChunkSize]:
    return [ChunkSize(1, context)] * sequences


def test_a_long_prefill_takes_its_arithmetic_at_the_stated_part_of_the_peak() -> None:
    language, peak = find_shape("qwen2.5-vl-7b").language, find_hardware("h100").flops["bf16"]
    seconds = estimated().step([ChunkSize(16384, 0)]) - estimated().step([ChunkSize(8192, 0)])
    rows = 2 * 8192 * language.active_parameters / (MATRICES * peak)
    attention = (16384**2 - 8192**2) * 2 * language.width * language.layers / (0.4 * peak)
    assert seconds == pytest.approx(rows + attention, rel=0.02)


def test_a_decode_step_of_one_reads_all_weights_once() -> None:
    language, device = find_shape("qwen2.5-vl-7b").language, find_hardware("h100")
    weights = 2 * (language.active_parameters + language.vocabulary * language.width)
    launches = LAUNCH * (9 * language.layers + 1)
    reading = weights / (BANDWIDTH * device.bandwidth)
    assert estimated().step(decoding(1, 0)) == pytest.approx(launches + reading, rel=0.01)


def test_keys_and_values_come_on_top_of_the_weights() -> None:
    language, device = find_shape("qwen2.5-vl-7b").language, find_hardware("h100")
    more = estimated().step(decoding(64, 4096)) - estimated().step(decoding(64, 2048))
    assert more == pytest.approx(64 * 2048 * language.kv_bytes_per_token / (BANDWIDTH * device.bandwidth), rel=0.01)


def test_experts_that_no_token_wants_are_not_read() -> None:
    costs = estimated("qwen3.5-122b-a10b", "gb200")
    all_weights = 2 * find_shape("qwen3.5-122b-a10b").language.parameters / (BANDWIDTH * 8e12)
    assert costs.step(decoding(1, 0)) < 0.25 * all_weights
    assert costs.step(decoding(256, 0)) > 0.9 * all_weights


@given(st.sampled_from(MODELS), st.integers(2, 60000), st.integers(0, 60000), st.integers(1, 4000))
def test_a_step_takes_longer_with_more_to_do(model: str, new: int, context: int, more: int) -> None:
    costs = estimated(model)
    least = costs.step([ChunkSize(new, context)])
    assert 0 < least <= costs.step([ChunkSize(new + more, context)]) * SLACK
    assert least <= costs.step([ChunkSize(new, context + more)]) * SLACK
    assert least <= costs.step([ChunkSize(new, context), ChunkSize(more, 0)]) * SLACK


@given(st.sampled_from(MODELS), st.integers(1, 200), st.integers(1, 30000), st.integers(1, 100))
def test_a_decode_step_takes_longer_with_more_sequences_or_longer_ones(
    model: str, sequences: int, context: int, more: int
) -> None:
    costs = estimated(model)
    least = costs.step(decoding(sequences, context))
    assert least <= costs.step(decoding(sequences + more, context)) * SLACK
    assert least <= costs.step(decoding(sequences, context + more)) * SLACK
    assert costs.step(decoding(sequences + more, context)) <= (1 + more) * least * SLACK  # batching never hurts


@given(
    st.sampled_from(MODELS),
    st.lists(st.integers(4, 9000), min_size=1, max_size=12),
    st.integers(4, 9000),
)
def test_encode_takes_longer_with_more_items_and_less_together_than_apart(
    model: str, sizes: list[int], more: int
) -> None:
    costs = estimated(model)
    items = [ItemSize(size, size // 4) for size in sizes]
    other = ItemSize(more, more // 4)
    assert costs.encode(items) <= costs.encode([*items, other]) * 1.01  # to the precision of interpolation
    assert costs.encode([*items, other]) <= (costs.encode(items) + costs.encode([other])) * 1.03
    assert costs.encode(items[::-1]) == pytest.approx(costs.encode(items))


def test_frames_of_a_video_do_not_attend_to_each_other() -> None:
    costs = estimated("qwen3.5-9b")
    video, picture = ItemSize(8 * 4096, 8 * 1024, frames=8), ItemSize(8 * 4096, 8 * 1024)
    assert costs.encode([video]) == pytest.approx(costs.encode([ItemSize(4096, 1024)] * 8), rel=1e-6)
    assert costs.encode([video]) < costs.encode([picture])


@given(st.sampled_from(MODELS), st.floats(0.05, 1), st.floats(0.05, 1), st.floats(0, 1))
def test_a_larger_share_never_takes_longer_and_a_neighbour_never_helps(
    model: str, share: float, other: float, beside: float
) -> None:
    costs = estimated(model)
    small, large = sorted((share, other))
    item = [ItemSize(1024, 256)]
    for time in (
        lambda share, beside: costs.encode(item, share, beside),
        lambda share, beside: costs.step(decoding(8, 1000), share, beside),
        lambda share, beside: costs.step([ChunkSize(2000, 0)], share, beside),
    ):
        assert time(large, beside) <= time(small, beside) * SLACK
        assert time(share, 0.0) <= time(share, beside) * SLACK


def test_half_of_the_sms_halve_prefill_and_hardly_touch_decode() -> None:
    costs = estimated()
    whole, half = (costs.step([ChunkSize(8192, 0)], share) for share in (1.0, 0.5))
    assert half == pytest.approx(2 * whole, rel=0.01)
    assert costs.step(decoding(8, 1000), 0.5) == pytest.approx(costs.step(decoding(8, 1000)), rel=1e-6)


def test_two_stages_on_the_whole_device_get_half_of_it_each_and_lose_a_little() -> None:
    arithmetic, _ = Contention(interference=0.1).left(1.0, 1.0)
    assert arithmetic == pytest.approx(0.5 / 1.1)
    with pytest.raises(ValueError, match="share"):
        Contention().left(0.0, 0.5)


def test_parallel_devices_share_the_work_and_pay_for_what_they_exchange() -> None:
    on_one, on_two, on_four = (
        estimated("llava-v1.6-34b", "a100", tp=tp).step([ChunkSize(2000, 0)]) for tp in (1, 2, 4)
    )
    assert on_one > on_two > on_four > on_one / 4
    pcie = [estimated("llava-v1.6-34b", "rtx6000ada", tp=tp).step([ChunkSize(2000, 0)]) for tp in (2, 4)]
    assert pcie[1] > pcie[0] / 2  # PCIe carries more, the more devices there are


def test_tokens_that_fit_grow_with_devices_and_are_none_where_weights_do_not_fit() -> None:
    assert estimated("llava-v1.6-34b", "rtx6000ada").kv_tokens == 0
    two, four = (estimated("llava-v1.6-34b", "rtx6000ada", tp=tp).kv_tokens for tp in (2, 4))
    assert 0 < 2 * two < four


@given(st.floats(1, 1e15), st.floats(1, 1e12), st.floats(1e9, 1e15), st.floats(1e9, 1e13))
def test_stretching_is_undone_by_stretching_back(flops: float, nbytes: float, speed: float, bandwidth: float) -> None:
    work, one, other = Work(flops, nbytes), Rates(speed, bandwidth), Rates(2 * speed, bandwidth / 3)
    assert stretch(work, one, other) * stretch(work, other, one) == pytest.approx(1)
    assert 0.5 <= stretch(work, one, other) <= 3 * SLACK


def test_links_take_a_latency_and_then_their_bandwidth() -> None:
    fast, slow = make_link("nvlink", find_hardware("a100")), make_link("tcp", bandwidth=2.5e9)
    assert fast.seconds(3 * 10**9) == pytest.approx(0.01, rel=0.01)
    assert slow.seconds(25 * 10**8) == pytest.approx(1, rel=0.01)
    assert fast.seconds(0) == 0 < fast.seconds(1)
    for kind, hardware, fault in (
        ("nvlink", "l40s", "L40S has no nvlink"),
        ("smoke", None, "there are shm, rdma, tcp"),
    ):
        with pytest.raises(StartupError, match=fault):
            make_link(kind, hardware and find_hardware(hardware))
    with pytest.raises(StartupError, match="name the hardware"):
        make_link("pcie")


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (("qwen2.5-vl-7b", "tpu"), "'tpu' is not known.*a100.*gb200"),
        (("qwen2.5-vl-7b", "cpu"), "easerve profile"),
        (("no-such-model", "a100"), "'no-such-model' is not known"),
    ],
)
def test_unknown_names_are_told_with_what_is_known(arguments: tuple[str, str], fault: str) -> None:
    with pytest.raises(StartupError, match=fault):
        make_costs(*arguments)


def test_impossible_settings_are_told() -> None:
    with pytest.raises(StartupError, match="28 attention heads, which 3 devices"):
        estimated(tp=3)
    with pytest.raises(StartupError, match="'int3' is not known; there are bf16, fp8, nvfp4"):
        estimated(precision="int3")


def test_every_device_costs_every_model() -> None:
    for device in all_hardware():
        for model in MODELS:
            assert estimated(model, device.key).encode([ItemSize(1500, 188)]) > 0
    assert find_hardware("RTX 6000-Ada") is find_hardware("rtx6000ada")
