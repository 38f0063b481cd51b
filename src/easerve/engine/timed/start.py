"""The timed engines of a worker, from what the deployment says of the device they take the time of."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from easerve.costs.base import StageCosts
from easerve.costs.make import make_costs
from easerve.costs.pictures import picture_size
from easerve.engine.choice import TIMED_NEEDS_HARDWARE
from easerve.engine.timed.engines import TimedEncoder, TimedLanguageModel
from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.models.base import Family

KNOWN = ("hardware", "tp", "precision", "profile")


def timed_costs(folder: Path, arguments: Mapping[str, Any]) -> StageCosts:
    """`arguments` are those of `easerve simulate`, without dashes. Raises StartupError for any other, and without a
    hardware."""
    if unknown := set(arguments) - set(KNOWN):
        raise StartupError(f"engine timed has no option {', '.join(sorted(unknown))}; it has {', '.join(KNOWN)}")
    if "hardware" not in arguments:
        raise StartupError(TIMED_NEEDS_HARDWARE)
    profile = arguments.get("profile")
    return make_costs(
        folder,
        str(arguments["hardware"]),
        tp=int(arguments.get("tp", 1)),
        precision=str(arguments.get("precision", "bf16")),
        profile=None if profile is None else Path(profile),
    )


def timed_encoder(family: Family, costs: StageCosts) -> TimedEncoder:
    return TimedEncoder(costs, picture_size(str(family.folder)))


def timed_language_model(family: Family, costs: StageCosts, options: EngineOptions) -> TimedLanguageModel:
    return TimedLanguageModel(costs, options, family.image_token_id)
