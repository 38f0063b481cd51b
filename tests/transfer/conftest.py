"""Every backend in turn, between this process and a second one."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from easerve.transfer.choose import Locality, Transfers, make_transfer
from easerve.transfer.nixl_agent import is_installed
from tests.transfer.peer import Peer

needs_nixl = pytest.mark.skipif(not is_installed(), reason="needs easerve[nixl]")


@dataclass(frozen=True)
class Way:
    """A backend, and whether its messages travel over local sockets or TCP."""

    kind: str
    locality: Locality = Locality.SAME_HOST

    def peer(self, folder: Path) -> Peer:
        return Peer(self.kind, folder, self.locality)

    def transfer(self, folder: Path, owner: str, deadline: float = 30.0) -> Transfers:
        return make_transfer(self.kind, folder, owner, locality=self.locality, deadline=deadline)


WAYS = [
    pytest.param(Way("shm"), id="shm"),
    pytest.param(Way("zmq"), id="zmq-ipc"),
    pytest.param(Way("zmq", Locality.ACROSS_HOSTS), id="zmq-tcp"),
    pytest.param(Way("nixl"), id="nixl", marks=needs_nixl),
]


@pytest.fixture(scope="session", params=WAYS)
def way(request: pytest.FixtureRequest) -> Way:
    assert isinstance(request.param, Way)
    return request.param


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="transfer-"))  # short: the name of a local socket has little room
    yield path
    shutil.rmtree(path)


@pytest.fixture(scope="session")
def peer(way: Way, folder: Path) -> Iterator[Peer]:
    peer = way.peer(folder)
    yield peer
    assert peer.end() == 0
    assert list(folder.glob(f"{peer.owner}*")) == []


@pytest.fixture(scope="session")
def transfer(way: Way, folder: Path) -> Iterator[Transfers]:
    transfer = way.transfer(folder, "here")
    yield transfer
    transfer.close()
