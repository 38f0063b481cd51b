"""The pipeline in virtual time: its tests take no longer, and come out no differently, on a busy machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from easerve.simulate.clock import VirtualLoop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    return {"virtual": VirtualLoop}
