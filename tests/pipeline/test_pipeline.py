"""A request's life: right answers, one bad item failing alone, cancellation everywhere, nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from easerve.errors import DeadlineExceeded, EAServeError, Overloaded, Unavailable, WorkerLost
from easerve.pipeline.pipeline import Deadlines
from easerve.pipeline.stages import EncodedBatch
from easerve.pipeline.timing import RequestTimes
from easerve.request import EmbeddingRef, MediaItem
from easerve.simulate.clock import run_virtually

from .doubles import World


async def test_every_request_gets_its_own_embeddings_in_its_own_order() -> None:
    world = World(encoders=3, delay=0.001)
    wanted = [[i, i, i + 1] for i in range(40)]  # repeated and adjacent
    requests = [world.request(str(i), [f"key#{k}" for k in keys]) for i, keys in enumerate(wanted)]
    assert await asyncio.gather(*(world.run(request) for request in requests)) == wanted
    assert any(len(batch) > 1 for encoder in world.encoders for batch in encoder.batches), "nothing was batched"
    world.assert_clean()


async def test_text_does_not_wait_for_encode() -> None:
    world = World(encoders=0)
    assert await world.run(world.request("text", [])) == [0]
    world.assert_clean()


async def test_a_bad_item_fails_its_own_request_only() -> None:
    world = World(delay=0.001)
    requests = [world.request("a", ["key#1"]), world.request("b", ["bad#2", "key#3"]), world.request("c", ["key#4"])]
    results = await asyncio.gather(*(world.run(request) for request in requests), return_exceptions=True)
    assert results[0] == [1]
    assert results[2] == [4]
    assert isinstance(results[1], EAServeError)
    world.assert_clean()


async def test_n_answers_share_one_encode() -> None:
    world = World()
    assert await world.run(world.request("n", ["key#7"], n=3)) == [7, 7, 7]
    assert world.encoders[0].batches == [["key#7"]]
    world.assert_clean()


async def test_a_lost_encoder_is_replaced_by_another() -> None:
    world = World(encoders=2, delay=0.001)
    world.encoders[0].fault = lambda items: WorkerLost("killed")
    assert await world.run(world.request("a", ["key#5"])) == [5]
    world.assert_clean()


async def test_encoders_of_different_speed_all_rest_and_all_work() -> None:
    world = World(encoders=3, bound=1)
    for index, encoder in enumerate(world.encoders):
        encoder.delay = 0.001 * (1 + index)
    for index in range(30):  # one at a time: all are idle whenever one is chosen
        assert await world.run(world.request(str(index), [f"key#{index}"])) == [index]
    requests = [world.request(str(i), [f"key#{i}"]) for i in range(60)]
    await asyncio.gather(*(world.run(request) for request in requests))
    assert all(encoder.batches for encoder in world.encoders)
    world.assert_clean()


async def test_a_slow_encoder_is_left_out_where_a_fast_one_is_through_sooner() -> None:
    world = World(encoders=2, bound=1)
    slow, fast = world.encoders
    slow.delay, fast.delay = 0.06, 0.003
    await asyncio.gather(*(world.run(world.request(f"warm {i}", [f"key#{i}"])) for i in range(4)))
    before = len(slow.batches)
    await asyncio.gather(*(world.run(world.request(str(i), [f"key#{i}"])) for i in range(60)))
    assert len(slow.batches) - before <= 8  # its fair share is 3; by turns it would be 30
    world.assert_clean()


async def test_encoders_that_are_almost_alike_share_a_long_queue() -> None:
    world = World(encoders=2, bound=1)
    world.encoders[0].delay, world.encoders[1].delay = 0.010, 0.012
    await asyncio.gather(*(world.run(world.request(str(i), [f"key#{i}"])) for i in range(100)))
    assert min(len(encoder.batches) for encoder in world.encoders) >= 25
    world.assert_clean()


async def test_slack_cuts_a_hold_short() -> None:
    loop = asyncio.get_running_loop()
    for objective, least, most in ((None, 0.4, 5.0), (0.1, 0.05, 0.3)):
        world = World(rule="count", bound=4, age_cap=0.5, slo_ttft=objective)
        asked = loop.time()
        assert await world.run(world.request("a", ["key#1"])) == [1]
        assert least <= loop.time() - asked <= most
        world.assert_clean()


async def test_text_and_cached_media_wait_for_no_batch() -> None:
    world = World(rule="count", bound=4, age_cap=0.5, cache_bytes=100)
    await world.run(world.request("a", ["key#1"]))
    asked = asyncio.get_running_loop().time()
    assert await world.run(world.request("text", [])) == [0]
    assert await world.run(world.request("again", ["key#1"])) == [1]
    assert asyncio.get_running_loop().time() - asked < 0.4
    world.assert_clean()


async def test_an_item_that_kills_every_encoder_is_given_up() -> None:
    world = World(encoders=2, delay=0.001)
    for encoder in world.encoders:
        encoder.fault = lambda items: WorkerLost("killed")
    with pytest.raises(WorkerLost):
        await world.run(world.request("a", ["key#5"]))
    world.assert_clean()


async def test_without_encoders_media_are_unavailable_also_when_queued_before() -> None:
    world = World(delay=0.05, bound=1)
    running = [asyncio.create_task(world.run(world.request(str(i), [f"key#{i}"]))) for i in range(3)]
    await asyncio.sleep(0.01)
    world.pipeline.encode_pool.remove_worker("encode-0", returns=False)
    results = await asyncio.gather(*running, return_exceptions=True)
    assert results[0] == [0]  # was running on the worker, which still answered
    assert [type(result) for result in results[1:]] == [Unavailable, Unavailable]
    with pytest.raises(Unavailable):
        await world.run(world.request("late", ["key#9"]))
    world.assert_clean()


async def test_an_embedding_of_another_length_or_item_is_refused() -> None:
    world = World()
    encoder = world.encoders[0]
    right = encoder._one
    encoder._one = lambda item: EmbeddingRef(  # type: ignore[method-assign]
        key=item.key, tokens=item.tokens + 1, tensors={"values": world.memory.put("x")}
    )
    with pytest.raises(EAServeError, match="room for 3"):
        await world.run(world.request("a", ["key#1"]))
    encoder._one = lambda item: right(world.request("other", ["key#2"]).media[0])  # type: ignore[method-assign]
    with pytest.raises(EAServeError, match="embedding of"):
        await world.run(world.request("b", ["key#1"]))
    world.memory.held = {name for name in world.memory.held if not name.startswith("pixels")}
    world.assert_clean()


async def test_a_stage_that_never_answers_ends_in_a_typed_error() -> None:
    world = World(delay=60)
    world.pipeline = replace(world.pipeline, deadlines=Deadlines(encode=0.05, first_token=0.05, next_token=0.05))
    with pytest.raises(DeadlineExceeded, match="encode"):
        await world.run(world.request("a", ["key#1"]))
    with pytest.raises(DeadlineExceeded, match="prefill"):
        await world.run(world.request("b", []))
    await asyncio.sleep(0)
    world.assert_clean()


def test_a_worker_that_stops_answering_after_its_first_token_ends_in_a_typed_error() -> None:
    async def scenario() -> list[int]:
        world, got = World(apart=True), []
        world.decoders[0].delay = 1000.0
        with pytest.raises(DeadlineExceeded, match="decode did not answer within 60 s"):
            async for output in world.pipeline.generate(world.request("a", ["key#1", "key#2"]), RequestTimes(0.0)):
                got.append(output.token_id)
        world.assert_clean()
        return got

    assert run_virtually(scenario()) == [1]


async def test_a_full_server_sheds_and_counts_right() -> None:
    world = World(delay=0.01, limit=2)
    requests = [world.request(str(i), [f"key#{i}"]) for i in range(5)]
    results = await asyncio.gather(*(world.run(request) for request in requests), return_exceptions=True)
    assert results[:2] == [[0], [1]]
    assert all(isinstance(result, Overloaded) and result.retry_after for result in results[2:])
    world.assert_clean()


async def test_closing_the_generator_cancels_the_sequence() -> None:
    world = World(delay=0.005)
    generator = world.pipeline.generate(world.request("a", ["key#1", "key#2", "key#3"]), RequestTimes(0.0))
    assert (await anext(generator)).token_id == 1
    await generator.aclose()
    assert world.generators[0].cancelled == ["a/0"]
    await asyncio.sleep(0)
    world.assert_clean()


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.lists(st.sampled_from(["key#1", "key#2", "bad#3"]), max_size=3), st.floats(0, 0.02)),
        min_size=1,
        max_size=12,
    ),
    st.sampled_from([0, 2, 100]),
    st.booleans(),
    st.booleans(),
)
def test_cancelled_at_any_moment_nothing_stays_behind(
    plan: list[tuple[list[str], float]], cache_bytes: int, apart: bool, survives_owner: bool
) -> None:
    async def scenario() -> None:
        world = World(
            encoders=2,
            delay=0.004,
            bound=2,
            cache_bytes=cache_bytes,
            apart=apart,
            local=apart,
            survives_owner=survives_owner,
        )
        tasks = [asyncio.create_task(world.run(world.request(str(i), keys))) for i, (keys, _) in enumerate(plan)]
        loop = asyncio.get_running_loop()
        for task, (_, when) in zip(tasks, plan, strict=True):
            if when < 0.019:
                loop.call_later(when, task.cancel)
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0.02)  # batches that were running when their readers left
        world.assert_clean()

    asyncio.run(scenario())


async def test_a_full_encode_queue_sheds_media_and_text_goes_on() -> None:
    world = World(delay=0.01, bound=1, max_queue=3)
    requests = [world.request(str(i), [f"key#{i}"]) for i in range(8)]
    results = await asyncio.gather(
        *(world.run(request) for request in [*requests, world.request("text", [])]), return_exceptions=True
    )
    served = [result for result in results if isinstance(result, list)]
    assert results[-1] == [0]
    assert len(served) >= 4
    assert all(isinstance(result, Overloaded) and result.retry_after for result in results if result not in served)
    world.assert_clean()


async def test_too_few_results_for_a_batch_fail_the_rest_at_once() -> None:
    world = World()
    encode = world.encoders[0].encode

    async def forgetful(items: Sequence[MediaItem]) -> EncodedBatch:
        return await encode(items[:1])

    world.encoders[0].encode = forgetful  # type: ignore[method-assign]
    with pytest.raises(EAServeError, match="answered 3 media items with 1"):
        await world.run(world.request("a", ["key#1", "key#2", "key#3"]))
    await asyncio.sleep(0.01)
    world.assert_clean()


async def test_more_results_than_items_are_given_back() -> None:
    """What is left over at the end of the answer: embeddings, and errors, which hold nothing."""
    world = World()
    encode = world.encoders[0].encode

    async def generous(items: Sequence[MediaItem]) -> EncodedBatch:
        surplus = [structs.replace(items[0], key=key) for key in ("bad", items[0].key, "of no request")]
        return await encode([*items, *surplus])

    world.encoders[0].encode = generous  # type: ignore[method-assign]
    assert await world.run(world.request("a", ["key#1", "key#2"])) == [1, 2]
    world.assert_clean()


async def test_a_sequence_that_is_not_wanted_any_more_ends_alone() -> None:
    world = World(delay=0.002)
    outputs = world.pipeline.generate(world.request("a", ["key#1", "key#2", "key#3"], n=2), RequestTimes(0.0))
    got: dict[str, list[int]] = {"a/0": [], "a/1": []}
    ended = None
    while True:
        try:
            output = await outputs.asend(ended)
        except StopAsyncIteration:
            break
        got[output.sequence_id].append(output.token_id)
        ended = "a/0" if output.sequence_id == "a/0" else None
    assert got == {"a/0": [1], "a/1": [1, 2, 3]}
    assert world.generators[0].cancelled == ["a/0"]
    world.assert_clean()
