"""Which backend is taken, and what is said when it cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

from easerve.errors import StartupError, TransferError
from easerve.request import TensorRef
from easerve.transfer import nixl_agent
from easerve.transfer.choose import Locality, choose, make_transfer
from easerve.transfer.shm import SharedMemory


@pytest.fixture
def without_nixl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nixl_agent.importlib.util, "find_spec", lambda name: None)


@pytest.fixture
def with_nixl(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nixl_agent.importlib.util, "find_spec", lambda name: object())


def test_on_one_host_it_is_shared_memory() -> None:
    assert choose("auto", Locality.SAME_HOST) == "shm"
    assert choose("zmq", Locality.SAME_HOST) == "zmq"


@pytest.mark.usefixtures("with_nixl")
def test_across_hosts_it_is_nixl() -> None:
    assert choose("auto", Locality.ACROSS_HOSTS) == "nixl"


@pytest.mark.usefixtures("without_nixl")
def test_without_nixl_it_is_zeromq() -> None:
    assert choose("auto", Locality.ACROSS_HOSTS) == "zmq"


@pytest.mark.usefixtures("without_nixl")
def test_without_nixl_the_extra_is_named_when_it_is_asked_for_and_when_it_is_met(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"easerve\[nixl\]"):
        make_transfer("nixl", tmp_path, "a")
    transfer = make_transfer("auto", tmp_path, "a")
    ref = TensorRef("ipc:///nowhere#0.0", (1,), "uint8", 1, via="nixl")
    with pytest.raises(TransferError, match=r"easerve\[nixl\]"):
        transfer.open(ref)
    transfer.release(ref)
    transfer.close()


@pytest.mark.parametrize(
    ("kind", "locality", "words"),
    [
        ("carrier pigeon", Locality.SAME_HOST, "carrier pigeon"),
        ("shm", Locality.ACROSS_HOSTS, "does not leave its host"),
    ],
)
def test_what_cannot_be_is_told_at_the_start(tmp_path: Path, kind: str, locality: Locality, words: str) -> None:
    with pytest.raises(StartupError, match=words):
        make_transfer(kind, tmp_path, "a", locality=locality)


def test_a_place_that_cannot_be_had_is_told_at_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match="no folder"):
        make_transfer("shm", tmp_path / "missing", "a")
    with pytest.raises(StartupError, match="cannot be served"):
        make_transfer("zmq", tmp_path, "a" * 200)
    with pytest.raises(StartupError, match="cannot be served"):
        make_transfer("zmq", tmp_path, "a", locality=Locality.ACROSS_HOSTS, address="192.0.2.1")


def test_a_reference_to_an_unknown_backend_is_an_error(tmp_path: Path) -> None:
    transfer = make_transfer("auto", tmp_path, "a")
    ref = TensorRef("x", (1,), "uint8", 1, via="fax")
    transfer.release(ref)
    with pytest.raises(TransferError, match="fax"):
        transfer.open(ref)


def test_what_a_dead_process_left_is_swept_and_nothing_else(tmp_path: Path) -> None:
    dead, namesake, transfer = (SharedMemory(tmp_path, name) for name in ("pd-1", "pd-1-7", "front-end"))
    lost, kept, other = (one.put(memoryview(b"x"), (1,), "uint8") for one in (dead, dead, namesake))
    assert make_transfer("auto", tmp_path, "front-end").sweep("pd-1", keep={kept.name}) == 1
    for ref in (kept, other):
        assert bytes(transfer.open(ref)) == b"x"
    with pytest.raises(TransferError, match="gone"):
        transfer.open(lost)
