"""Deployment files: YAML with the fields of a `Deployment`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from easerve.config.deployment import Deployment
from easerve.config.entry import WorkerEntry
from easerve.errors import StartupError


def read_deployment(path: Path, **overrides: Any) -> Deployment:
    """The deployment in a file, with some fields replaced. Raises StartupError naming every fault and its place."""
    try:
        content = yaml.load(path.read_text(encoding="utf-8"), _Loader)
    except OSError as error:
        raise StartupError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise StartupError(f"{path} is no YAML: {error}") from error
    if content is None:
        content = {}
    if not isinstance(content, dict):
        raise StartupError(f"{path} must hold `field: value` lines, not {type(content).__name__}")
    given = {str(name): value for name, value in content.items()}
    return parse_deployment(given | overrides, lambda place: f"{path}: {place}")


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
    match fault["type"]:
        case "extra_forbidden" if len(fault["loc"]) > 1:
            return f"there is no such field; a worker has {', '.join(WorkerEntry.model_fields)}"
        case "extra_forbidden":
            return (
                "there is no such field; fields are those of `easerve serve --help`, with _ for - and without host and "
                "port, and workers"
            )
        case "missing":
            return "is missing"
        case "tuple_type":
            return f"must be a list, not {fault['input']!r}"
        case _:
            return f"{fault['msg'].removeprefix('Value error, ')}, not {fault['input']!r}"


class _Loader(yaml.SafeLoader):
    """Knows plain YAML, and no key twice: the later of two would silently count."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = Counter(key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode))
        for key, count in keys.items():
            if count > 1:
                raise yaml.constructor.ConstructorError(None, None, f"{key} is given {count} times", node.start_mark)
        return super().construct_mapping(node, deep)
