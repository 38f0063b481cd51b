"""Where msgspec is not installed, just enough of it for the engine's plain data: structs become dataclasses."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any


class Struct:
    """Fields by annotation, as msgspec.Struct; nothing can be encoded."""

    def __init_subclass__(cls, *, frozen: bool = False, kw_only: bool = False, **_: Any) -> None:
        dataclass(frozen=frozen, kw_only=kw_only)(cls)


def install() -> None:
    """Does nothing where the real one is there."""
    try:
        import msgspec  # noqa: F401
    except ImportError:
        module = ModuleType("msgspec")
        module.Struct = Struct  # type: ignore[attr-defined]
        sys.modules["msgspec"] = module
