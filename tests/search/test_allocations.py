"""Allocations: all of them, none twice, none that leaves a device idle or gives the model no room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from easerve.config import Deployment
from easerve.costs.base import ItemSize
from easerve.search.allocation import Allocation, allocations
from easerve.search.demand import Demand, Shape
from easerve.search.deploying import Machine, deployment
from easerve.search.space import Candidate

DEMAND = Demand(Shape(2.0, ItemSize(1024, 256), 600, 64), 4.0, 2.0, 0.05)


@given(devices=st.integers(1, 12), spans=st.sets(st.sampled_from((1, 2, 4)), min_size=1), least=st.sampled_from((1, 2)))
def test_every_allocation_uses_every_device_and_has_room(devices: int, spans: set[int], least: int) -> None:
    found = list(allocations(devices, sorted(spans), lambda width: width >= least))
    assert len(found) == len(set(found))
    for one in found:
        assert one.devices == devices
        assert least <= one.tp <= devices and one.tp in spans
        assert one.encode_tp in (1, one.tp)


def test_eight_devices_of_one_width_have_the_allocations_that_can_be_counted() -> None:
    found = list(allocations(8, [1], lambda width: True))
    kinds = [one.kind for one in found]
    assert {kind: kinds.count(kind) for kind in kinds} == {"aggregated": 1, "colocated": 1, "e-pd": 7, "e-p-d": 21}


def test_the_papers_allocations_are_among_those_of_two_wide_workers() -> None:
    """Encode on single devices, prefill and decode tensor parallel over two."""
    found = [one for one in allocations(8, [2], lambda width: True) if one.kind == "e-p-d"]
    assert {(one.encoders, one.prefillers, one.decoders) for one in found} == {(2, 1, 2), (2, 2, 1), (4, 1, 1)}


@given(st.data())
def test_a_candidate_becomes_a_deployment_with_its_workers_each_on_devices_of_its_own(data: st.DataObject) -> None:
    allocation = data.draw(st.sampled_from(list(allocations(8, [1, 2], lambda width: True))))
    ratio = data.draw(st.sampled_from((0.0, 0.4, 1.0))) if allocation.kind == "e-p-d" else 1.0
    made = deployment(Candidate(allocation, 4, ratio, "gap"), Machine("a100", 8), DEMAND, _base())
    stages = [entry.stages for entry in made.workers]
    encoding = [entry for entry in made.workers if entry.stages[0] == "encode"]
    assert len(made.workers) == allocation.encoders + allocation.prefillers + allocation.decoders
    assert (("encode", "prefill") in stages) == (ratio < 1)
    assert made.remote_ratio == (ratio if ratio < 1 else _base().remote_ratio)
    assert made.encode_batch == 4 and made.batching == "gap" and made.limit_images == 3
    assert made.arrival_rate == 8.0 and (made.slo_ttft, made.slo_tpot) == (2.0, 0.05)
    devices = [entry.device for entry in made.workers]
    if allocation.kind == "colocated":
        assert sorted(set(devices)) == sorted(entry.device for entry in encoding)
    else:
        assert len(set(devices)) == len(devices)


def test_names_tell_what_is_where() -> None:
    assert str(Allocation("e-p-d", 2, 1, 5)) == "2E + 1P + 5D"
    assert str(Allocation("colocated", 4, 0, 4, 2, 2)) == "4E / 4PD, TP 2, E over 2"
    assert str(Candidate(Allocation("e-p-d", 2, 1, 2, 2), 8, 0.6, "gap")) == "2E + 1P + 2D, TP 2; B 8, gap, s 0.60"


def _base() -> Deployment:
    return Deployment(model="some/model", limit_images=3, topology="aggregated", decoders=5)
