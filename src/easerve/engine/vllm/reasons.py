"""Why vLLM does not start, in the names of EAServe's options. Needs no vLLM."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic import ValidationError

from easerve.engine.vllm.arguments import REFUSED

_OPTIONS = {name: use.removeprefix("use ") for name, use in REFUSED.items() if use.startswith("use ")}


def check_names(arguments: Collection[str], known: Collection[str]) -> None:
    """Raises ValueError for the first of `arguments` that vLLM does not know."""
    for name in arguments:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"--engine-args {name}: there is no such option{meant}")


def reason(error: Exception, given: Mapping[str, Any]) -> str:
    """What vLLM says, where `given` are the arguments that EAServe made of its own options."""
    said = "; ".join(map(_fault, error.errors())) if isinstance(error, ValidationError) else str(error)
    options = dict(_OPTIONS)
    if given.get("kv_cache_memory_bytes"):
        options["gpu_memory_utilization"] = options["kv_cache_memory_bytes"]  # what vLLM advises has no effect then
    names = "|".join(options)
    return re.sub(rf"`?\b({names})\b`?", lambda found: options[found[1]], said)


def _fault(one: Mapping[str, Any]) -> str:
    said = one["msg"].removeprefix("Value error, ")
    where = ".".join(map(str, one["loc"]))
    return f"{where}={one['input']!r}: {said}" if where else said
