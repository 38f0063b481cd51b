"""The scenarios there are, from the files beside this one; sides are put together from parts that files share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from easerve.errors import BadRequest
from easerve.scenarios.describe import Scenario

_FILES = Path(__file__).with_name("published")


def scenarios() -> Mapping[str, Scenario]:
    """All of them by name, in the order of their names."""
    return {name: find_scenario(name) for name in _names()}


@cache
def find_scenario(name: str) -> Scenario:
    """Raises BadRequest for a name that is none."""
    if name not in _names():
        raise BadRequest(f"no scenario is called {name!r}; there are {', '.join(_names())}")
    return _read(_FILES / f"{name}.yaml")


def _names() -> list[str]:
    return sorted(file.stem for file in _FILES.glob("*.yaml"))


def _read(file: Path) -> Scenario:
    content = _load(file)
    shared = _load(_FILES / "shared" / f"{content.pop('shared')}.yaml")
    parts = {**shared["parts"], **content.pop("parts", {})}
    sides = {name: _side(own or {}, parts) for name, own in content.pop("sides", {}).items()}
    assumed = (*shared["assumed"], *content.pop("assumed", ()))
    whole = {"name": file.stem, "source": shared["source"], "assumed": assumed, "sides": sides, **content}
    return Scenario.model_validate(whole)


def _load(file: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
    return content


def _side(own: Mapping[str, Any], parts: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The part that all have, then the named ones, then its own; `settings` and `workload` field by field."""
    found: dict[str, Any] = {}
    for layer in (parts["all"], *(parts[name] for name in own.get("parts", ())), own):
        for key, value in layer.items():
            merged = key in ("settings", "workload") and key in found
            found[key] = {**found[key], **value} if merged else value
    found.pop("parts", None)
    return found
