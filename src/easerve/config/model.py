"""Which model a deployment serves, and under which name."""

from __future__ import annotations

from pathlib import Path

from easerve.config.deployment import BUILTIN, Deployment
from easerve.errors import StartupError


def model_folder(deployment: Deployment) -> str:
    """What to hand to the model registry."""
    if deployment.model != BUILTIN:
        return deployment.model
    from easerve.builtin import model_path

    folder = model_path()
    if not (folder / "config.json").exists():
        raise StartupError(f"the built-in model is missing from {folder}; reinstall the package")
    return str(folder)


def model_problems(deployment: Deployment) -> list[str]:
    """What a start would say of the model before any worker loads it, in words.

    Empty for a hub id that is no folder here: only a start asks the hub.
    """
    from easerve.models.registry import load_family

    try:
        if not from_hub(deployment):
            load_family(model_folder(deployment), deployment.revision)
    except StartupError as error:
        return [f"model: {error.message}"]
    return []


def from_hub(deployment: Deployment) -> bool:
    """Whether the model is no folder here and may be a hub id. A path of several parts, or with a leading `/`, `.` or
    `~`, never is one."""
    if deployment.model == BUILTIN or Path(deployment.model).expanduser().is_dir():
        return False
    from huggingface_hub.utils import HFValidationError, validate_repo_id

    try:
        validate_repo_id(deployment.model)
    except HFValidationError:
        return False
    return True


def served_name(deployment: Deployment) -> str:
    """The name clients use."""
    return deployment.served_model_name or deployment.model
