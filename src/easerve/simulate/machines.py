"""From names to a world: what model runs on which devices, and what lies between them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from easerve.config import WorkerPlan
from easerve.config.topology import E
from easerve.costs.base import StageCosts
from easerve.costs.hardware import find_hardware
from easerve.costs.links import Link, make_link
from easerve.costs.make import make_costs
from easerve.costs.profile_file import read_profile
from easerve.costs.profiled import ProfiledLink
from easerve.costs.shapes.find import model_folder
from easerve.costs.sharing import Contention
from easerve.errors import StartupError
from easerve.simulate.media import media_size
from easerve.simulate.server import World
from easerve.simulate.text import by_tokenizer, by_words

# The system gives each of several processes on a core its turn, and a turn is the whole core with its whole memory
CORES = Contention(saturating=1.0, drawn=0.0, interference=0.0)


@dataclass(frozen=True)
class Machines:
    """`hardware` of all workers, but for `encode_hardware` of those that only encode; each worker has `tp` devices.

    With a `profile` of the machine at hand, `hardware` is "cpu" and the rest is measured. An `auto` link is the
    profile's, or else rdma.
    """

    hardware: str
    encode_hardware: str | None = None
    tp: int = 1
    precision: str = "bf16"
    link: str = "auto"
    profile: Path | None = None

    def world(self, model: str) -> World:
        """For a model that costs are known for, or a folder. Raises StartupError for whatever is not known."""
        whole, encoders = self._costs(model, self.hardware), self._costs(model, self.encode_hardware or self.hardware)

        def costs(plan: WorkerPlan) -> StageCosts:
            return encoders if plan.stages == E else whole

        link, measured = self._link(), None if self.profile is None else read_profile(self.profile)
        sources = {**getattr(whole, "sources", {}), "link": f"{self.link} link: {link.source}"}
        folder = model_folder(model)
        text = by_words if folder is None else by_tokenizer(folder)
        takes, size = media_size(model)
        world = World(self.name, costs, size, link, takes, self._on_cpu, text=text, sources=sources)
        if measured is None:
            return world
        slowdowns = {(one.stage, one.beside): one.factor for one in measured.slowdown}
        return replace(world, added=measured.server, slowdowns=slowdowns)

    def _on_cpu(self, plan: WorkerPlan) -> bool:
        return (self.encode_hardware if plan.stages == E and self.encode_hardware else self.hardware) == "cpu"

    @property
    def name(self) -> str:
        parts = [self.hardware, self.precision if self.profile is None else f"profile {self.profile.name}"]
        parts += [f"TP {self.tp}"] if self.tp > 1 else []
        parts += [f"encode on {self.encode_hardware}"] if self.encode_hardware else []
        return ", ".join(parts)

    def _link(self) -> Link | ProfiledLink:
        if self.link != "auto" or self.profile is None:
            device = None if self.hardware == "cpu" else find_hardware(self.hardware)
            return make_link("rdma" if self.link == "auto" else self.link, device)
        profile = read_profile(self.profile)
        return ProfiledLink(profile, self.profile) if profile.transfer else make_link("shm")

    def _costs(self, model: str, hardware: str) -> StageCosts:
        contention = CORES if hardware == "cpu" else None
        return make_costs(
            model, hardware, tp=self.tp, precision=self.precision, profile=self.profile, contention=contention
        )


def parse_hardware(text: str) -> tuple[str, int | None]:
    """`a100` or `a100:8`: the name, and how many there are. Raises StartupError."""
    name, colon, number = text.partition(":")
    if not colon:
        return name, None
    if not number.isdigit() or int(number) < 1:
        raise StartupError(f"hardware {text!r}: write a name, or a name and a number of devices such as a100:8")
    return name, int(number)
