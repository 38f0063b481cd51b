"""One way to get costs: by the model's and the device's name, from the best source there is."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from easerve.costs.base import StageCosts
from easerve.costs.composed import ComposedCosts
from easerve.costs.hardware import PRECISIONS, find_hardware
from easerve.costs.memory import kv_tokens
from easerve.costs.pieces import Piece
from easerve.costs.profiled import read_costs
from easerve.costs.shapes.find import find_shape
from easerve.costs.shapes.model import ModelShape
from easerve.costs.sharing import Contention
from easerve.costs.sources import Method, Sources
from easerve.costs.work import Part
from easerve.errors import StartupError


def make_costs(
    model: str | Path,
    hardware: str,
    *,
    tp: int = 1,
    precision: str = "bf16",
    profile: Path | None = None,
    method: Method = "tables",
    contention: Contention | None = None,
) -> StageCosts:
    """Stage times of `model` (a name of `known_models()`, or a folder) on `tp` devices of `hardware`.

    With a `profile` everything comes from it, and `hardware` must be the one it was measured on ("cpu"). Otherwise
    each piece comes from kernels measured on the device, else on the device that stands in for it, else from the
    roofline; `sources` of the result says which. Costs of the same arguments are made once.

    Raises StartupError for a model, device, precision or parallelism that is not known or not possible.

    Example: `make_costs("qwen2.5-vl-32b", "a100", tp=2).encode([ItemSize(patches=4096, tokens=1024)])`.
    """
    if profile is not None:
        return read_costs(profile, str(model), hardware, contention or Contention())
    if hardware == "cpu":
        raise StartupError(
            "costs of a CPU are those of the machine at hand: measure them with "
            "`easerve profile --model FOLDER --device cpu:0 --out profile.json` and give that file as the profile"
        )
    shape, device = find_shape(str(model)), find_hardware(hardware)
    _check(shape, tp, precision)
    parts = _parts(str(model), device.key, tp, precision, method)
    return ComposedCosts(shape, parts, kv_tokens(shape, device, tp, precision), contention or Contention())


def _check(shape: ModelShape, tp: int, precision: str) -> None:
    if precision not in PRECISIONS:
        raise StartupError(f"precision {precision!r} is not known; there are {', '.join(PRECISIONS)}")
    if tp < 1 or shape.language.heads % tp:
        raise StartupError(
            f"{shape.name} has {shape.language.heads} attention heads, which {tp} devices cannot share evenly"
        )


@cache
def _parts(model: str, hardware: str, tp: int, precision: str, method: Method) -> Mapping[Piece, Part]:
    return Sources(find_shape(model), find_hardware(hardware), tp, precision).parts(method)
