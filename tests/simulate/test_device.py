"""Work that shares a device: worked out by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from easerve.costs.base import ItemSize
from easerve.engine.partition.options import PartitionOptions
from easerve.simulate.clock import run_virtually
from easerve.simulate.device import Device
from easerve.simulate.sharing import CHOICES, WHOLE, make_shares
from tests.simulate.worlds import LinearCosts, size

Piece = tuple[float, float, float | None]  # begins, seconds alone on the whole device, claim


def ends(pieces: Sequence[Piece], held: float = 0.0) -> list[float]:
    async def main() -> list[float]:
        device, loop = Device(), asyncio.get_running_loop()
        device.held = held

        async def one(begins: float, alone: float, claim: float | None) -> float:
            await asyncio.sleep(begins)
            await device.work(lambda share, beside: alone / min(share, share / (share + beside)), claim)
            return loop.time()

        return await asyncio.gather(*(one(*piece) for piece in pieces))

    return run_virtually(main())


def test_alone_nothing_is_slower() -> None:
    assert ends([(1.0, 4.0, None), (7.0, 1.0, None)]) == [5.0, 8.0]


def test_two_without_a_partition_go_at_half_speed_while_both_are_there() -> None:
    """A runs alone for 1 s, with B for 4 s (2 s of it done), B then has 1 of 3 s left."""
    assert ends([(0.0, 3.0, None), (1.0, 3.0, None)]) == [5.0, 6.0]


def test_what_begins_beside_a_claim_has_the_rest_to_its_end() -> None:
    """Encode holds a quarter for 4 s; the step that began beside it keeps three quarters when that is over."""
    assert ends([(0.0, 1.0, 0.25), (1.0, 4.5, None)]) == [4.0, 7.0]


def test_a_step_that_began_on_the_whole_device_keeps_it_from_a_later_claim() -> None:
    """Claims then add up to 1.25: of the device the step has 4/5, the batch 1/5."""
    assert ends([(0.0, 2.0, None), (1.0, 0.25, 0.25)]) == [2.25, 2.25]


def test_a_static_partition_holds_its_part_for_encode_between_batches() -> None:
    assert ends([(0.0, 1.0, None)], held=0.5) == [2.0]


@given(
    pieces=st.lists(st.tuples(st.floats(0, 5), st.floats(0.01, 3), st.none()), min_size=1, max_size=6).map(
        lambda drawn: [(begins, alone, None) for begins, alone, _ in drawn]
    )
)
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_device_does_as_much_work_as_it_is_busy(pieces: list[Piece]) -> None:
    """Work conservation: as soon as all have begun, the last ends when all their work has been done."""
    done = ends(pieces)
    begun = max(begins for begins, _, _ in pieces)
    latest = sorted(zip(pieces, done, strict=True), key=lambda one: one[0][0])
    free = 0.0
    for (begins, alone, _), _ in latest:
        free = max(free, begins) + alone
    assert abs(max(done) - free) < 1e-6
    assert max(done) >= begun


def test_partitions_are_those_of_the_rules() -> None:
    """An encoder that gains nothing above a quarter of the device gets the smallest share that is safe."""

    class Saturating(LinearCosts):
        def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
            return len(items) / min(share, 0.25)

    item = size(224, 224)
    dynamic = make_shares(PartitionOptions("dynamic", largest_batch=4), Saturating(), size(224, 224))
    assert dynamic.held == 0.0
    assert dynamic.claim([item] * 2, now=0.0) == 0.25
    assert (
        make_shares(PartitionOptions("dynamic", largest_batch=4), LinearCosts(), size(224, 224)).claim([item], 0.0)
        is None
    )
    static = make_shares(PartitionOptions("static", share=0.5), LinearCosts(), size(224, 224))
    assert static.claim([item], 0.0) == static.held == 0.5
    assert 0.5 * WHOLE in CHOICES
