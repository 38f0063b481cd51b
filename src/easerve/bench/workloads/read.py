"""Which workload is meant by a name, a YAML file, or a place with the user's own requests; and fields set anew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from easerve.bench.workloads.base import Workload
from easerve.bench.workloads.drawn import Drawn
from easerve.bench.workloads.multi_turn import MultiTurn
from easerve.bench.workloads.names import NAMED
from easerve.bench.workloads.own import Own
from easerve.bench.workloads.random_mm import RandomMultimodal
from easerve.bench.workloads.repeated import Repeated
from easerve.bench.workloads.spoken import Spoken
from easerve.errors import BadRequest

KINDS: Mapping[str, type[Workload]] = {
    "drawn": Drawn,
    "repeated": Repeated,
    "multi-turn": MultiTurn,
    "random-mm": RandomMultimodal,
    "spoken": Spoken,
    "own": Own,
}


def read_workload(given: str, settings: Sequence[str] = ()) -> Workload:
    """`given` is a name, a .yaml file (`base: NAME` or `kind: KIND`, and fields), a folder or a file of JSON lines.

    `settings` are `field=value`, the value as YAML writes it. Raises BadRequest naming the fault and what would do.
    """
    changes = dict(_setting(one) for one in settings)
    path = Path(given)
    if given in NAMED:
        return _changed(NAMED[given], changes, given)
    if path.suffix in (".yaml", ".yml"):
        return _from_yaml(path, changes)
    if path.exists():
        return _made(Own, {"path": path, **changes}, given)
    raise BadRequest(f"no workload is called {given!r} and no such file exists; names: {', '.join(NAMED)}")


def _setting(text: str) -> tuple[str, Any]:
    name, sign, value = text.partition("=")
    if not sign:
        raise BadRequest(f"{text!r} sets nothing: write field=value")
    return name.strip().replace("-", "_"), _value(value)


def _value(text: str) -> Any:
    if text.startswith("{"):  # mappings are read by their field, as vLLM writes them
        return text
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return text


def _from_yaml(path: Path, changes: Mapping[str, Any]) -> Workload:
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError) as error:
        raise BadRequest(f"{path} cannot be read as YAML: {error}") from error
    if not isinstance(content, dict):
        raise BadRequest(f"{path} must hold `field: value` lines")
    fields = {**content, **changes}
    base = fields.pop("base", None)
    if base is not None:
        if base not in NAMED:
            raise BadRequest(f"{path}: no workload is called {base!r}; names: {', '.join(NAMED)}")
        return _changed(NAMED[base], fields, str(path))
    kind = fields.pop("kind", "drawn")
    if kind not in KINDS:
        raise BadRequest(f"{path}: there is no kind {kind!r}; kinds: {', '.join(KINDS)}")
    if kind == "own" and "path" in fields:
        fields["path"] = path.parent / str(fields["path"])
    return _made(KINDS[kind], fields, str(path))


def _changed(workload: Workload, changes: Mapping[str, Any], where: str) -> Workload:
    return _made(type(workload), {**workload.model_dump(), **changes}, where)


def _made(kind: type[Workload], fields: Mapping[str, Any], where: str) -> Workload:
    try:
        return kind(**fields)
    except ValidationError as error:
        faults = [f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()]
        known = ", ".join(name for name in kind.model_fields if name != "kind")
        raise BadRequest(f"{where}: {'; '.join(faults)} (fields: {known})") from error
