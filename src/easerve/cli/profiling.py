"""`easerve profile`: how long stages take on the machine at hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from easerve.cli.output import writable
from easerve.errors import StartupError
from easerve.profile.plan import STAGES, Plan, Stage
from easerve.transfer.base import TransferName

if TYPE_CHECKING:
    from easerve.costs.profile_file import Profile
    from easerve.workers.spec import Device

SERVER = "server"

console = Console(stderr=True)


def profile(
    model: Annotated[str, typer.Option(help="Folder in Hugging Face layout, hub id, or 'builtin'.")] = "builtin",
    revision: Annotated[
        str | None, typer.Option(help="Branch, tag or commit of a hub model, as for easerve serve.")
    ] = None,
    device: Annotated[str, typer.Option(help="Device to measure: cpu:0, cpu:0,1, cpu:0-3 or cuda:0.")] = "cpu:0",
    out: Annotated[
        Path,
        typer.Option(
            help="File to write; stages that it has of the same machine and model are kept.", callback=writable
        ),
    ] = Path("profile.json"),
    stage: Annotated[
        list[str] | None,
        typer.Option(
            help="encode, prefill, decode, transfer, or server (what it adds, and how cores slow each other down); "
            "may be given several times (default: all)."
        ),
    ] = None,
    shares: Annotated[
        bool,
        typer.Option("--shares", help="With --stage encode: by part of the device, for --partition-table."),
    ] = False,
    repeats: Annotated[int, typer.Option(help="Every time is the median of so many.", min=1)] = 5,
    dtype: Annotated[str, typer.Option(help="auto (the checkpoint's own), float32, bfloat16 or float16.")] = "auto",
    engine: Annotated[
        Literal["auto", "torch", "vllm"], typer.Option(help="What prefills and decodes, as for easerve serve.")
    ] = "auto",
    transfer: Annotated[
        TransferName, typer.Option(help="How tensors move between workers, as for easerve serve.")
    ] = "auto",
) -> None:
    """Measure encode, prefill, decode and transfer, for simulation and planning with this machine's own times.

    Example:

    easerve profile --model FOLDER --device cpu:0 --out profile.json
    """
    from easerve.config import Deployment, model_folder
    from easerve.models.checkpoint import locate
    from easerve.workers.spec import parse_device

    place, folder = parse_device(device), locate(model_folder(Deployment(model=model)), revision)
    if shares:
        if stage != ["encode"]:
            raise StartupError("--shares is a matter of encode alone; give it with --stage encode")
        _profile_shares(folder, place, out, dtype)
        return
    from easerve.costs.profile_file import read_profile
    from easerve.engine.choice import choose_engine
    from easerve.profile.progress import ProfileProgress
    from easerve.profile.run import merged, run_profile

    names = stage or [*STAGES, *([SERVER] if place.kind == "cpu" else [])]
    stages, chosen, plan = _stages(names, place), choose_engine(engine, place.kind), Plan(repeats=repeats)
    earlier = read_profile(out) if out.exists() else None

    def measure() -> Profile:
        with ProfileProgress(console, plan) as progress:
            return run_profile(
                folder, place, stages=stages, plan=plan, dtype=dtype, engine=chosen, transfer=transfer,
                report=progress.measured,
            )  # fmt: skip

    measured = _with_surroundings(measure, folder, place, dtype) if SERVER in names else measure()
    _write(measured if earlier is None else merged(earlier, measured), out)


def _stages(names: Sequence[str], device: Device) -> list[Stage]:
    """Those of `names` that are stages; SERVER may be among them on a CPU."""
    if SERVER in names and device.kind != "cpu":
        raise StartupError("--stage server is measured on CPUs only: what a host adds to a GPU was not looked into")
    if unknown := set(names) - {*STAGES, SERVER}:
        raise StartupError(f"there is no stage {min(unknown)!r}; there are {', '.join((*STAGES, SERVER))}")
    return [stage for stage in STAGES if stage in names]


def _with_surroundings(measure: Callable[[], Profile], folder: Path, device: Device, dtype: str) -> Profile:
    from easerve.simulate.measuring import with_surroundings

    console.print("measuring what a server adds, and how cores slow each other down", highlight=False)
    return with_surroundings(measure, folder, device, dtype=dtype)


def _write(profile: Profile, out: Path) -> None:
    from easerve.costs.profile_file import write_profile
    from easerve.profile.table import show

    write_profile(profile, out)
    show(profile, Console())
    console.print(f"written to {out}", soft_wrap=True, highlight=False)


def _profile_shares(folder: Path, device: Device, out: Path, dtype: str) -> None:
    from easerve.profile.shares import profile_shares, share_table

    document = profile_shares(
        str(folder), device, dtype=dtype, report=lambda doing: console.print(doing, highlight=False)
    )
    document.write(out)
    Console().print(share_table(document))
    console.print(f"written to {out}", soft_wrap=True, highlight=False)
