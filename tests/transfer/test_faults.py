"""What an open and a release do when the owner is slow or dead, and what a closed transfer leaves behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from easerve.errors import TransferError
from easerve.request import TensorRef
from easerve.transfer.choose import Locality, Transfers, make_transfer
from easerve.transfer.nixl_agent import Agent
from tests.transfer.conftest import Way, needs_nixl
from tests.transfer.peer import Peer, content

PATIENCE = 20.0  # far from every deadline that is tested


def opened_or_error(transfer: Transfers, ref: TensorRef) -> bytes | TransferError:
    try:
        return bytes(transfer.open(ref))
    except TransferError as error:
        return error


@pytest.fixture
def mortal(way: Way, folder: Path) -> Iterator[Peer]:
    """A peer that may be killed."""
    peer = way.peer(folder)
    yield peer
    peer.kill()


def test_a_stalled_owner_ends_in_an_error_at_the_deadline(way: Way, folder: Path, peer: Peer) -> None:
    transfer = way.transfer(folder, "impatient", deadline=0.3)
    ref = peer.put(1, 100_000)
    peer.stop()
    try:
        result = opened_or_error(transfer, ref)
        transfer.release(TensorRef(f"{ref.name}0", (1,), "uint8", 1, via=ref.via))
    finally:
        peer.go_on()
    if transfer.survives_owner:
        assert result == content(1, 100_000)
    else:
        assert isinstance(result, TransferError) and "deadline" in result.message
    assert bytes(transfer.open(ref)) == content(1, 100_000), "the owner is back, and so is the buffer"
    transfer.release(ref)
    transfer.close()


def test_an_owner_killed_midway_ends_in_an_error_long_before_the_deadline(
    way: Way, folder: Path, mortal: Peer, transfer: Transfers
) -> None:
    read, unread = mortal.put(1, 100_000), mortal.put(2, 10)
    assert bytes(transfer.open(read)) == content(1, 100_000)
    mortal.stop()  # so that the first of the opens is under way when the owner dies, and the second comes too late
    with ThreadPoolExecutor(1) as threads:
        first = threads.submit(opened_or_error, transfer, read)
        if not transfer.survives_owner:
            assert not first.done()
        mortal.kill()
        results = [first.result(PATIENCE), opened_or_error(transfer, unread)]
    if transfer.survives_owner:
        assert results == [content(1, 100_000), content(2, 10)]
    else:
        for result in results:
            assert isinstance(result, TransferError) and "cannot be reached" in result.message
    for ref in (read, unread, read):
        transfer.release(ref)
    with pytest.raises(TransferError):
        transfer.open(read)
    transfer.sweep(mortal.owner, keep=())
    assert list(folder.glob(f"{mortal.owner}*")) == []


def test_closed_a_transfer_leaves_no_file_and_no_thread(
    way: Way, folder: Path, peer: Peer, transfer: Transfers
) -> None:
    before = threading.active_count()
    other = way.transfer(folder, "other")
    mine, theirs = other.put(memoryview(b"mine"), (4,), "uint8"), peer.put(0, 4)
    view = other.open(theirs)
    transfer.open(mine)
    other.close()
    assert bytes(view) == content(0, 4)
    assert threading.active_count() <= before
    assert list(folder.glob("other*")) == []
    for use in (lambda: other.open(theirs), lambda: other.put(memoryview(b"x"), (1,), "uint8")):
        with pytest.raises(TransferError, match="closed"):
            use()
    other.release(theirs)
    other.close()
    with pytest.raises(TransferError):
        transfer.open(mine)
    transfer.release(theirs)


@needs_nixl
def test_over_a_network_a_nixl_read_has_its_owners_help_and_a_deadline(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UCX_TLS", "tcp")  # nobody can read another's memory behind its back
    peer = Peer("nixl", folder, Locality.ACROSS_HOSTS)
    transfer = make_transfer("nixl", folder, "far", locality=Locality.ACROSS_HOSTS, deadline=2.0)
    ref = peer.put(3, 5_000_000)
    assert bytes(transfer.open(ref)) == content(3, 5_000_000)
    peer.stop_after_next_answer()
    with pytest.raises(TransferError, match="deadline"):
        transfer.open(ref)
    peer.kill()
    with pytest.raises(TransferError, match="cannot be reached"):
        transfer.open(ref)
    transfer.close()


@needs_nixl
def test_a_buffer_released_while_nixl_reads_it_is_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, reader = (make_transfer("nixl", folder, name) for name in ("owner", "reader"))
    ref = owner.put(memoryview(bytes(1000)), (1000,), "uint8")
    assert len(reader.open(ref)) == 1000
    read = Agent.read

    def released_before(self: Agent, *arguments: object) -> Iterator[None]:
        owner.release(ref)
        return read(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Agent, "read", released_before)
    with pytest.raises(TransferError, match="gone"):
        reader.open(ref)
    owner.close()
    reader.close()
