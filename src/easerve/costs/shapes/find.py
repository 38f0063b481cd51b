"""The shape of a model by its name or its folder."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from easerve.builtin import model_path
from easerve.costs.shapes.model import ModelShape
from easerve.costs.shapes.read import shape_of
from easerve.errors import StartupError
from easerve.models.checkpoint import read_json

_PUBLISHED = Path(__file__).parent / "published"


def known_models() -> list[str]:
    """Names that need no folder."""
    return [*sorted(file.stem for file in _PUBLISHED.glob("*.yaml")), "builtin"]


@cache
def find_shape(model: str) -> ModelShape:
    """`qwen2.5-vl-7b` (a hub's `org/` in front and the letters' case do not matter), `builtin`, or a folder with a
    config.json. Raises StartupError for anything else."""
    folder = model_folder(model)
    if folder is not None:
        return shape_of(folder.name, _completed(folder, read_json(folder / "config.json")))
    return shape_of(plain_name(model), published_config(model))


def model_folder(model: str) -> Path | None:
    """Where it lies here, if it does."""
    if plain_name(model) == "builtin":
        return model_path()
    folder = Path(model).expanduser()
    return folder if folder.is_dir() else None


def published_config(model: str) -> Mapping[str, Any]:
    """What is kept here of a published model's config.json; `pixels` are its image processor's bounds. Raises
    StartupError for a model that is not among them."""
    file = _PUBLISHED / f"{plain_name(model)}.yaml"
    if file not in _PUBLISHED.iterdir():
        raise StartupError(
            f"the shape of {model!r} is not known; give a folder with its config.json, or one of "
            f"{', '.join(known_models())}"
        )
    config: Mapping[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return config


def plain_name(model: str) -> str:
    return model.rsplit("/", 1)[-1].lower().removesuffix("-instruct").removesuffix("-hf")


def _completed(folder: Path, config: Mapping[str, Any]) -> Mapping[str, Any]:
    """With transformers' defaults, where it knows the model."""
    from transformers import AutoConfig
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if config.get("model_type") not in CONFIG_MAPPING_NAMES:
        return config
    try:
        completed: Mapping[str, Any] = AutoConfig.from_pretrained(folder, local_files_only=True).to_dict()
    except Exception as error:  # transformers' own checks raise many kinds
        raise StartupError(f"{folder / 'config.json'} is not a usable configuration: {error}") from error
    return completed
