"""A worker's lives as its supervisor sees them, without processes."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from easerve.engine.torch.options import EngineOptions
from easerve.errors import StartupError
from easerve.policy.restart import RestartRule
from easerve.transfer.choose import make_transfer
from easerve.transfer.ledger import Ledger
from easerve.workers.client import WorkerClient
from easerve.workers.hub import Hub
from easerve.workers.launcher import LocalProcess
from easerve.workers.life import LOADING_PATIENCE, Life
from easerve.workers.pulse import STARVED_PATIENCE, CoreWaits
from easerve.workers.spec import Device, WorkerSpec
from easerve.workers.supervisor import Patience, Supervisor


class Nobody:
    """Has no work for workers."""

    def worker_up(self, worker: WorkerClient) -> None: ...

    def worker_lost(self, name: str, *, returns: bool) -> None: ...


class Silent(LocalProcess):
    """A process that says nothing until it is killed."""

    def __init__(self) -> None:
        self.ended = asyncio.get_running_loop().create_future()

    @property
    def pid(self) -> int:
        return os.getpid()

    async def wait(self) -> int:
        return int(await asyncio.shield(self.ended))

    def kill(self) -> None:
        self.ended.set_result(-9)


@pytest_asyncio.fixture
async def hub(tmp_path: Path) -> AsyncIterator[Hub]:
    hub = Hub(tmp_path)
    hub.start()
    yield hub
    hub.close()


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(make_transfer("shm", tmp_path, "front-end"))


def spec(hub: Hub) -> WorkerSpec:
    return WorkerSpec(
        name="encode-0",
        stages=("encode",),
        device=Device("cpu", (0,)),
        model="",
        endpoint=hub.endpoint,
        run_folder="",
        dtype="auto",
        engine=EngineOptions(),
    )


async def test_a_process_that_cannot_be_started_ends_the_start_with_the_reason(
    hub: Hub, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: object) -> LocalProcess:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    monkeypatch.setattr(LocalProcess, "start", start)
    supervisor = Supervisor(
        hub=hub,
        ledger=ledger,
        pools=Nobody(),
        on_progress=lambda *_: None,
        restart=RestartRule(),
        patience=Patience(),
    )
    with pytest.raises(StartupError, match="encode-0 could not be started: Cannot allocate memory"):
        await supervisor.start([spec(hub)])
    assert supervisor.pids == {}
    await supervisor.stop()


@pytest.mark.parametrize(("starved", "times"), [(False, 1), (True, STARVED_PATIENCE)])
async def test_silence_ends_a_life_later_where_no_core_is_to_be_had(
    starved: bool, times: int, hub: Hub, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def start(*_: object) -> LocalProcess:
        return process

    process = Silent()
    monkeypatch.setattr(LocalProcess, "start", start)
    monkeypatch.setattr(CoreWaits, "starved", lambda *_: starved)
    life = Life(spec(hub), hub, ledger, lambda *_: None)
    while life.pid is None:
        life.check_pulse(1)  # there is nothing to look at yet
        await asyncio.sleep(0)
    looks = 0
    while not process.ended.done():
        life.check_pulse(4)
        looks += 1
        assert looks <= 4 * LOADING_PATIENCE * times + 1
    assert looks > 4 * LOADING_PATIENCE * (times - 1)
    assert "sent no heartbeat" in await life.death()
    life.bury("")
