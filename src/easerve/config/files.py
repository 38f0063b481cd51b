"""Deployment files: YAML with the fields of a `Deployment`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from easerve.config.deployment import Deployment
from easerve.errors import StartupError


def read_deployment(path: Path, **overrides: Any) -> Deployment:
    """The deployment in a file, with some fields replaced. Raises StartupError naming every fault and its place."""
    try:
        content = yaml.safe_load(path.read_text())
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise StartupError(f"{path} is no YAML: {error}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise StartupError(f"{path} must hold `field: value` lines, not {type(content).__name__}")
    return parse_deployment({**content, **overrides}, lambda place: f"{path}: {place}")


def parse_deployment(fields: dict[str, Any], named: Callable[[str], str]) -> Deployment:
    """Raises StartupError with one line per fault; `named` says where a field such as workers[1].device was given."""
    try:
        return Deployment(**fields)
    except ValidationError as error:
        faults = [f"{named(_place(fault['loc']))}: {_words(fault)}" for fault in error.errors()]
        raise StartupError("\n".join(faults)) from error


def write_deployment(deployment: Deployment, path: Path, *, comment: str = "") -> None:
    """A file that reads back as the same deployment; fields at their defaults are left out, the model is not."""
    fields = deployment.model_dump(mode="json", exclude_defaults=True)
    text = "".join(f"# {line}\n" for line in comment.splitlines())
    path.write_text(text + yaml.safe_dump({"model": deployment.model} | fields, sort_keys=False))


def _place(location: tuple[int | str, ...]) -> str:
    """workers[1].device"""
    parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(parts).removeprefix(".")


def _words(fault: Any) -> str:
    if fault["type"] == "extra_forbidden":
        return "there is no such field; fields are those of `easerve serve --help`, with _ for -, and workers"
    return f"{fault['msg'].removeprefix('Value error, ')}, not {fault['input']!r}"
