"""`easerve profile --stage encode --shares`: encode by batch and part of the device, and the shares that follow.

    document = profile_shares("builtin-model-folder", parse_device("cpu:0,1"))
    document.write(Path("shares.json"))

`easerve serve --partition dynamic --partition-table shares.json` reads it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from rich.table import Table

from easerve.engine.partition.document import ShareDocument, dtype_name, model_name
from easerve.engine.partition.opening import hardware_name, open_partition
from easerve.engine.partition.profiling import PICTURE_SIDE, measure_shares
from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.models.registry import load_family
from easerve.policy.partition import Dynamic, SafeRange
from easerve.profile.run import bind
from easerve.workers.loading import load_engines
from easerve.workers.spec import Device, WorkerSpec

PROFILE_SECONDS = 120.0


def profile_shares(
    model: str,
    device: Device,
    *,
    largest_batch: int = 8,
    side: int = PICTURE_SIDE,
    seconds: float = PROFILE_SECONDS,
    dtype: str = "auto",
    report: Callable[[str], None] = lambda text: None,
) -> ShareDocument:
    """Encode of pictures of `side` pixels, in batches up to `largest_batch`, on every share of `device`, alone and
    beside prefill; about so many seconds, fewer batches if they would take longer. Binds this process to the device's
    cores. Raises StartupError if the device cannot be split.
    """
    bind(device)
    folder = load_family(model).folder
    spec = WorkerSpec(
        name="profile",
        stages=("encode", "prefill"),
        device=device,
        model=str(folder),
        endpoint="",
        run_folder="",
        dtype=dtype,
        engine=EngineOptions(max_sequences=1),
    )
    engines = load_engines(spec, report)
    assert engines.encoder is not None and engines.language_model is not None
    place = torch.device(device.torch_name)
    partition = open_partition(place, split=True)
    if not partition.choices:
        raise StartupError(f"one {partition.unit} of {device} cannot be split; name more, as in --device cpu:0,1")
    times = measure_shares(
        partition,
        engines.encoder,
        engines.language_model,
        largest_batch=largest_batch,
        side=side,
        seconds=seconds,
        report=report,
    )
    partition.close()
    return ShareDocument(
        hardware_name(place), model_name(folder), dtype_name(folder, dtype), partition.unit, side, times
    )


def share_table(document: ShareDocument, safe: SafeRange | None = None) -> Table:
    """Milliseconds beside prefill (alone), a row per batch; the share that `--partition dynamic` gives at low load."""
    times = document.times
    dynamic = Dynamic(times.profile(), safe)
    title = f"Encode of {document.side}x{document.side} pictures, ms beside prefill (alone): {document.hardware}"
    table = Table("items", *(f"{document.unit}s: {units}" for units in times.units), "share", title=title)
    for items, alone, beside in zip(times.batches, times.alone, times.beside, strict=True):
        cells = (f"{1e3 * both:.1f} ({1e3 * own:.1f})" for own, both in zip(alone, beside, strict=True))
        table.add_row(str(items), *cells, str(dynamic.during(items) or "all"))
    speeds = (f"{speed:,.0f}" for speed in times.prefill_tokens_per_second)
    table.add_row("prefill tokens/s", *speeds, f"alone {times.prefill_alone_tokens_per_second:,.0f}")
    return table
