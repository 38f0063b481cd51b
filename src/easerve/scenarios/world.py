"""From a side of a scenario to a simulation: workers on devices, and what their stages cost there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

from easerve.config import Deployment, WorkerEntry, WorkerPlan
from easerve.costs.base import ItemSize, StageCosts
from easerve.costs.hardware import find_hardware
from easerve.costs.links import make_link
from easerve.costs.make import make_costs
from easerve.costs.pictures import audio_size, picture_size
from easerve.scenarios.describe import Group, Item, Side
from easerve.scenarios.hosted import Host, HostedCosts
from easerve.search.spanning import spanning
from easerve.simulate.peers import as_peer
from easerve.simulate.run import Simulation
from easerve.simulate.server import World

PATIENT = 1e6  # seconds: a system under overload is measured to its last answer
MANY = 100_000


def simulation(side: Side, host: Host) -> Simulation:
    """Raises StartupError for a model, device or deployment that cannot be."""
    hardware = {name: group.hardware or side.hardware for name, group in _by_worker(side)}
    spans = {name: group.devices for name, group in _by_worker(side)}
    link = make_link(side.link, find_hardware(side.hardware), side.bandwidth)

    def costs(plan: WorkerPlan) -> StageCosts:
        return _costs(side.model, hardware[plan.name], spans[plan.name], side.precision, host)

    return Simulation(deployment(side), World(side.hardware, costs, _size(side), link))


def deployment(side: Side) -> Deployment:
    """Nothing is shed and nobody gives up: figures of overload are of all requests."""
    own = Deployment(
        model=side.model,
        workers=tuple(_entries(side)),
        request_timeout=PATIENT,
        max_requests=MANY,
        max_encode_queue=MANY * 100,
        limit_images=MANY,
        **side.settings,
    )
    return own if side.like is None else as_peer(own, side.like)


def _entries(side: Side) -> Iterator[WorkerEntry]:
    """Each on the first of its devices."""
    first: dict[str, int] = {}  # device of each group that has its own
    free = 0
    for name, group in side.workers.items():
        if group.beside is None:
            first[name] = free
            free += group.count * group.devices
        home = group.beside or name
        for k in range(group.count):
            device = first[home] + k * side.workers[home].devices
            yield WorkerEntry(stages=group.stages, device=f"cuda:{device}", name=f"{name}-{k}")


def _by_worker(side: Side) -> Iterator[tuple[str, Group]]:
    for name, group in side.workers.items():
        for k in range(group.count):
            yield f"{name}-{k}", group


@cache
def _costs(model: str, hardware: str, span: int, precision: str, host: Host) -> StageCosts:
    def make(tp: int) -> StageCosts:
        return make_costs(model, hardware, tp=tp, precision=precision)

    return HostedCosts(spanning(make, [span])[span], host)


def _size(side: Side) -> Callable[[int, int], ItemSize]:
    if isinstance(side.media, Item):
        alike = ItemSize(side.media.patches, side.media.tokens)
        return lambda height, width: alike
    if side.media == "audio":
        clip = audio_size(side.model)
        return lambda height, width: clip(width / 100)
    return picture_size(side.model)
