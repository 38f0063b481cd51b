"""Which model a deployment serves, and under which name."""

from __future__ import annotations

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


def served_name(deployment: Deployment) -> str:
    """The name clients use."""
    return deployment.served_model_name or deployment.model
