"""Workers that die in virtual time: the real pipeline does their work again, and no reader notices but by the wait."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.errors import Unavailable
from easerve.pipeline.observer import Observer
from easerve.pipeline.timing import RequestTimes
from easerve.request import MediaItem, Request, SamplingParams
from easerve.simulate.clock import run_virtually
from easerve.simulate.server import VirtualServer
from tests.simulate.worlds import simulation, world

SHAPE = {"encoders": 2, "prefillers": 2, "decoders": 2}
OUTPUT = 20
WORKERS = [f"{kind}-{number}" for kind in ("encode", "prefill", "decode") for number in range(2)]


class Redone(Observer):
    def __init__(self) -> None:
        self.stages: list[str] = []

    def redone(self, stage: str) -> None:
        self.stages.append(stage)


def server(observer: Observer, **deployment: Any) -> VirtualServer:
    given_ = simulation(**{"topology": "e-p-d", **SHAPE, "embedding_cache_gb": 0.0, **deployment})
    return VirtualServer(given_.deployment, given_.plans(), world(), observer)


async def answered(under: VirtualServer, number: int, begins: float) -> list[int]:
    await asyncio.sleep(begins)
    items = tuple(
        MediaItem(
            key=f"{number}/{k}", modality="image", height=224, width=224, tokens=64, offset=64 * k,
            pixels=under.memory.put("front-end", 1),
        )
        for k in range(2)
    )  # fmt: skip
    sampling = SamplingParams(max_tokens=OUTPUT, ignore_eos=True)
    request = Request(id=f"{number}", prompt=(0,) * 200, media=items, sampling=sampling)
    times = RequestTimes(asyncio.get_running_loop().time())
    return [output.token_id async for output in under.pipeline.generate(request, times)]


@given(
    deaths=st.lists(st.tuples(st.floats(0.01, 1.0), st.sampled_from(WORKERS)), min_size=1, max_size=4),
    topology=st.sampled_from(["e-p-d", "easerve", "e-pd"]),
    transfer=st.sampled_from(["shm", "nixl"]),
    back=st.floats(0.0, 0.3),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_no_token_is_lost_or_comes_twice(
    deaths: list[tuple[float, str]], topology: str, transfer: str, back: float
) -> None:
    async def main() -> None:
        under = server(Redone(), topology=topology, transfer=transfer)
        under.open()

        async def die(moment: float, name: str) -> None:
            await asyncio.sleep(moment)
            if name in under.workers:
                under.lose(name, back_after=back)

        answers = [answered(under, number, 0.05 * number) for number in range(12)]
        results = await asyncio.gather(*answers, *(die(*one) for one in deaths))
        assert results[:12] == [list(range(OUTPUT))] * 12
        assert not under.memory.live
        under.close()

    run_virtually(main())


@pytest.mark.parametrize(("name", "moment"), [("encode", 0.005), ("prefill", 0.03), ("decode", 0.1)])
def test_what_ran_on_the_dead_worker_is_done_again_elsewhere(name: str, moment: float) -> None:
    async def main() -> list[str]:
        observer = Redone()
        under = server(observer)
        under.open()
        running = asyncio.create_task(answered(under, 0, 0.0))
        await asyncio.sleep(moment)
        under.lose(f"{name}-0")
        assert await running == list(range(OUTPUT))
        under.close()
        return observer.stages

    assert run_virtually(main()) == ([name] if name != "encode" else ["encode"] * 2)


def test_with_no_decode_worker_left_requests_end_in_an_error() -> None:
    async def main() -> None:
        under = server(Observer())
        under.open()
        running = asyncio.create_task(answered(under, 0, 0.0))
        await asyncio.sleep(0.1)
        under.lose("decode-0")
        under.lose("decode-1")
        with pytest.raises(Unavailable):
            await running
        assert not under.memory.live
        under.close()

    run_virtually(main())
