"""How much slower the machine is at a moment than when it was profiled, and a profile that is true of that moment.

A virtual machine beside others changes its speed by tens of percent within minutes. So that a figure says how good the
simulation is, and not how the machine has changed, probes time the same works after the profile and around each run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

from easerve.config import Deployment, plan_workers
from easerve.costs.profile_file import Profile, ServerTime
from easerve.errors import StartupError
from easerve.profile.probe import Reading, probe
from easerve.profile.works import KINDS, PROMPT, SEQUENCES
from easerve.workers.spec import Device


@dataclass(frozen=True)
class Profiled:
    """A profile's file, and what a probe read on its device right after it was taken."""

    path: Path
    reading: Reading


@dataclass(frozen=True)
class Drift:
    """Times of now over times of when the profile was taken: means of two, off by `unsteady` of them at most."""

    encode: float
    prefill: float
    decode: float
    unsteady: float = 0.0

    @property
    def mean(self) -> float:
        return fmean((self.encode, self.prefill, self.decode))

    def __str__(self) -> str:
        stages = f"encode {self.encode:.2f}, prefill {self.prefill:.2f}, decode {self.decode:.2f}"
        return f"{stages} (± {self.unsteady:.0%})"


def drift(profiled: Reading, before: Reading, after: Reading) -> Drift:
    """Of a run, from the readings around it."""
    means = {kind: fmean((before[kind], after[kind])) for kind in KINDS}
    unsteady = max(abs(after[kind] / means[kind] - 1) for kind in KINDS)
    return Drift(**{kind: seconds / profiled[kind] for kind, seconds in means.items()}, unsteady=unsteady)


def said(profile: Profile) -> Reading:
    """What the profile itself has of the works of a probe, which are among its sizes; its largest picture is theirs.

    Raises StartupError if profiling left one of them out, as what takes too long.
    """
    encode = {one.patches: one.seconds for one in profile.encode if one.batch == 1}
    prefill = {(one.new, one.context): one.seconds for one in profile.prefill}
    decode = {(one.sequences, one.context): one.seconds for one in profile.decode}
    try:
        return {
            "encode": encode[max(encode)],
            "prefill": prefill[PROMPT, 0],
            "decode": decode[SEQUENCES, PROMPT],
        }
    except KeyError as size:
        raise StartupError(f"the profile lacks the size {size}: the machine was too slow for it") from None


def drifted(profile: Profile, by: Drift) -> Profile:
    """Each stage's times by its own factor; transfers, and what a server adds, by the mean. How much cores slow each
    other down is a ratio already."""
    added = {field: by.mean * getattr(profile.server, field) for field in ServerTime.__struct_fields__}
    return replace(
        profile,
        encode=tuple(replace(one, seconds=one.seconds * by.encode) for one in profile.encode),
        prefill=tuple(replace(one, seconds=one.seconds * by.prefill) for one in profile.prefill),
        decode=tuple(replace(one, seconds=one.seconds * by.decode) for one in profile.decode),
        transfer=tuple(replace(one, seconds=one.seconds * by.mean) for one in profile.transfer),
        server=ServerTime(**added),
    )


def read_once(model: Path, device: Device) -> Reading:
    with probe(model, device) as ask:
        return ask(KINDS)


@contextmanager
def probing(chosen: Deployment) -> Iterator[Callable[[], Reading]]:
    """A probe on each device of the workers, and what asks each for the stages that run there, one probe at a time.

    Raises StartupError if one of them dies.
    """
    stages: dict[Device, set[str]] = {}
    for plan in plan_workers(chosen):
        stages.setdefault(plan.device, set()).update(plan.stages)
    with ExitStack() as stack:
        asks = [(stack.enter_context(probe(Path(chosen.model), device)), kinds) for device, kinds in stages.items()]
        yield lambda: joined([ask(kinds) for ask, kinds in asks])


def joined(readings: Sequence[Reading]) -> Reading:
    """The mean of each kind, over the devices that do it."""
    return {kind: fmean(one[kind] for one in readings if kind in one) for kind in KINDS}
