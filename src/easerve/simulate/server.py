"""A deployment in virtual time: the pipeline and the pools of a server, over virtual workers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from easerve.bench.workers import Busy
from easerve.config import Deployment, WorkerPlan, encode_tokens, engine_options
from easerve.config.topology import EP, E
from easerve.costs.base import ItemSize, LinkCosts, StageCosts
from easerve.costs.profile_file import ServerTime
from easerve.engine.partition.options import PartitionOptions
from easerve.engine.timed.batching import ContinuousBatching
from easerve.errors import BadRequest
from easerve.pipeline.observer import Observer
from easerve.request import MediaItem, Modality
from easerve.server.wiring import Shifts, make_pipeline
from easerve.simulate.desk import Station
from easerve.simulate.device import Device, Host, Slowdowns
from easerve.simulate.encoding import EncodeDesk
from easerve.simulate.front_end import FrontEnd
from easerve.simulate.generating import GenerateDesk
from easerve.simulate.memory import VirtualMemory
from easerve.simulate.pace import Pace, even
from easerve.simulate.requests import Item
from easerve.simulate.sharing import UNITS, make_shares
from easerve.simulate.text import TextTokens, by_words
from easerve.simulate.worker import VirtualWorker
from easerve.workers.spec import usable_cores

WORDS: Mapping[Modality, str] = {"image": "pictures", "audio": "sound", "video": "video"}


@dataclass(frozen=True)
class World:
    """What a simulation takes for true: how long things take, and what the encoder sees of a picture; and where it has
    that from: `name` in short, `sources` by what they are of. What a server adds to its engines, and what its devices
    slow each other down by, is nothing where it is not known; `pace` is even."""

    name: str
    costs: Callable[[WorkerPlan], StageCosts]
    size: Callable[[int, int], ItemSize]  # of a picture's height and width in pixels, or of 1 and a clip's samples
    link: LinkCosts  # between any two workers
    takes: Modality = "image"
    on_cpu: Callable[[WorkerPlan], bool] = lambda plan: False
    text: TextTokens = by_words
    sources: Mapping[str, str] = field(default_factory=dict)
    added: ServerTime = field(default_factory=ServerTime)
    slowdowns: Slowdowns = field(default_factory=dict)
    pace: Pace = even

    def item(self, one: Item | MediaItem) -> ItemSize:
        """What the encoder sees of it. Raises BadRequest for what it does not take."""
        if one.modality != self.takes:
            raise BadRequest(f"the model takes {WORDS[self.takes]}, not {WORDS[one.modality]}")
        return self.size(one.height, one.width)


class VirtualServer:
    """Workers are up from `open` on. `pipeline` takes requests; `memory` knows what they hold."""

    def __init__(
        self, deployment: Deployment, plans: list[WorkerPlan], world: World, observer: Observer | None = None
    ) -> None:
        self.deployment, self.world = deployment, world
        self.memory = VirtualMemory(survives_owner=deployment.transfer in ("auto", "shm"))
        tokens = encode_tokens(deployment, plans, self._on_cpu)
        without = deployment.model_copy(update={"prefix_cache": False})  # timed engines have none
        self.pipeline = make_pipeline(without, self.memory, observer or Observer(), None, tokens)
        self.workers: dict[str, VirtualWorker] = {}
        self._plans = {plan.name: plan for plan in plans}
        host = Host(world.slowdowns, world.pace)
        self._devices = {place: Device(host) for place in dict.fromkeys(str(plan.device) for plan in plans)}
        self.front_end = FrontEnd(world.added, [*self._devices.values(), *_spare(plans)])
        self._shifts = Shifts(self.pipeline)
        self._earlier: dict[tuple[str, str], float] = {}  # busy seconds of workers that were lost

    def _on_cpu(self, deployment: Deployment, plan: WorkerPlan) -> bool:
        return self.world.on_cpu(plan)

    def open(self) -> None:
        for name in self._plans:
            self._up(name)

    def close(self) -> None:
        for worker in self.workers.values():
            worker.close()

    def lose(self, name: str, back_after: float | None = None) -> None:
        """A worker dies now, and is back with nothing after so many seconds, or never."""
        worker = self.workers.pop(name)
        self._earlier = self._add(self._earlier, worker)
        self._shifts.worker_lost(name, returns=back_after is not None)
        self.memory.lose(name)
        worker.lose("died")
        if back_after is not None:
            asyncio.get_running_loop().call_later(back_after, self._up, name)

    def busy(self) -> Busy:
        """Seconds at work so far, by worker and stage."""
        busy = self._earlier
        for worker in self.workers.values():
            busy = self._add(busy, worker)
        return busy

    def _add(self, busy: dict[tuple[str, str], float], worker: VirtualWorker) -> dict[tuple[str, str], float]:
        more = {(worker.name, desk.stage): desk.busy for desk in worker.desks}
        return busy | {key: busy.get(key, 0.0) + seconds for key, seconds in more.items()}

    def _up(self, name: str) -> None:
        worker = self.workers[name] = self._make(self._plans[name])
        worker.open()
        self._shifts.worker_up(worker)

    def _make(self, plan: WorkerPlan) -> VirtualWorker:
        costs, device, coresident = self.world.costs(plan), self._devices[str(plan.device)], plan.stages == EP
        options = self.deployment.partition_options if coresident else PartitionOptions()
        shares = make_shares(options, costs, self.world.size(*UNITS[self.world.takes]))
        device.held = shares.held
        world = self.world
        station = Station(plan.name, costs, device, self.memory, world.link, asyncio.Event(), world.added.step)
        beside = replace(station, woken=asyncio.Event()) if coresident else station
        return VirtualWorker(
            plan.name,
            plan.stages,
            EncodeDesk(station, self.world.item, shares) if "encode" in plan.stages else None,
            GenerateDesk(beside, ContinuousBatching.sized(engine_options(self.deployment, plan, self._on_cpu), costs))
            if plan.stages != E
            else None,
        )


def _spare(plans: Sequence[WorkerPlan]) -> list[Device]:
    """A core for each that no worker is bound to."""
    taken = {core for plan in plans if plan.device.kind == "cpu" for core in plan.device.indices}
    return [Device() for _ in range(len(usable_cores()) - len(taken))]
