"""What every backend promises, between two processes: the bytes arrive, sizes are checked, nothing stays behind."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from easerve.errors import TransferError
from easerve.request import TensorRef
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.choose import Transfers
from easerve.transfer.tensors import open_tensor, put_tensor
from easerve.transfer.together import put_all
from tests.transfer.peer import Peer, content, digest

DTYPES = [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.uint8, torch.bool]
quick = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def wait_for_buffers(number: int, side: Peer | Transfers) -> None:
    """A release by another process is on its way for a moment."""
    until = time.monotonic() + 10
    while (left := side.buffers() if isinstance(side, Peer) else side.buffers) != number:
        assert time.monotonic() < until, f"{left} buffers are left, not {number}"
        time.sleep(0.01)


def wait_for_no_buffers(*sides: Peer | Transfers) -> None:
    for side in sides:
        wait_for_buffers(0, side)


@quick
@given(
    hnp.arrays(
        st.sampled_from([np.uint8, np.int16, np.float32, np.float64, np.bool_]),
        hnp.array_shapes(min_dims=0, min_side=0, max_side=40),
    )
)
def test_the_peer_sees_the_array_that_was_put(transfer: Transfers, peer: Peer, array: np.ndarray) -> None:
    store = ArrayStore(transfer)
    ref = store.put(array)
    assert peer.open(ref) == digest(array.tobytes())
    here = store.open(ref)
    assert (here.shape, here.dtype) == (array.shape, array.dtype)
    peer.release(ref)
    wait_for_no_buffers(transfer)


@quick
@given(st.sampled_from([0, 1, 63, 64, 65, 8191, 16384, 70_000, 3_000_000]), st.integers(0, 2**32))
def test_what_the_peer_puts_is_what_is_opened(transfer: Transfers, peer: Peer, nbytes: int, seed: int) -> None:
    ref = peer.put(seed, nbytes)
    opened = transfer.open(ref)
    transfer.release(ref)
    wait_for_no_buffers(peer)
    peer.release(peer.put(seed + 1, nbytes))  # takes the memory again, if it can
    assert bytes(opened) == content(seed, nbytes), "the view must outlive the release"


@pytest.mark.parametrize("shape", [(7, 5), (0, 5), ()])
def test_tensors_of_any_dtype_come_back_as_they_were(transfer: Transfers, peer: Peer, shape: tuple[int, ...]) -> None:
    for dtype in DTYPES:
        tensor = torch.randn(shape).mul(100).to(dtype)
        tensor = tensor.T if tensor.dim() == 2 else tensor  # not contiguous
        ref = put_tensor(transfer, tensor)
        back = open_tensor(transfer, ref)
        assert back.dtype == tensor.dtype and torch.equal(back, tensor)
        assert peer.open(ref) == digest(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        transfer.release(ref)
    wait_for_no_buffers(transfer)


def test_a_hundred_megabytes_arrive(transfer: Transfers, peer: Peer) -> None:
    ref = peer.put(7, 100_000_000)
    assert transfer.open(ref) == content(7, 100_000_000)
    transfer.release(ref)
    wait_for_no_buffers(peer)


def test_several_threads_open_at_once(transfer: Transfers, peer: Peer) -> None:
    refs = [peer.put(seed, 1_000 * 3**seed) for seed in range(8)]
    with ThreadPoolExecutor(6) as threads:
        for _ in range(6):
            opened = threads.map(transfer.open, refs)
            assert [digest(data) for data in opened] == [digest(content(seed, 1_000 * 3**seed)) for seed in range(8)]
        list(threads.map(transfer.release, refs + refs))
    wait_for_no_buffers(peer)


def test_released_once_or_twice_by_anyone_a_buffer_is_gone(transfer: Transfers, peer: Peer) -> None:
    mine, theirs = put_tensor(transfer, torch.zeros(9)), peer.put(1, 9)
    kept = peer.put(2, 5)
    for ref in (mine, theirs):
        for _ in range(2):
            transfer.release(ref)
            peer.release(ref)
        with pytest.raises(TransferError, match="gone"):
            transfer.open(ref)
        with pytest.raises(AssertionError, match="gone"):
            peer.open(ref)
    assert bytes(transfer.open(kept)) == content(2, 5), "what was released must not be another's"
    transfer.release(kept)
    wait_for_no_buffers(transfer, peer)


def test_wrong_length_shape_and_dtype_are_told(transfer: Transfers, peer: Peer) -> None:
    ref = msgspec.structs.replace(peer.put(1, 16), shape=(4, 4))
    for nbytes in (15, 17, 0, 2**62):
        with pytest.raises(TransferError, match=f"holds 16 bytes, announced were {nbytes}"):
            transfer.open(msgspec.structs.replace(ref, nbytes=nbytes))
    for wrong in (msgspec.structs.replace(ref, shape=(4, 5)), msgspec.structs.replace(ref, dtype="no such")):
        with pytest.raises(TransferError):
            ArrayStore(transfer).open(wrong)
        with pytest.raises(TransferError):
            open_tensor(transfer, wrong)
    transfer.release(ref)
    wait_for_no_buffers(peer)


@pytest.mark.parametrize("name", ["", "never-was", "nowhere#0.0", "ipc:///nowhere#0.0", "tcp://127.0.0.1:1#0.0"])
def test_a_name_that_never_was_is_an_error_to_open_and_nothing_to_release(transfer: Transfers, name: str) -> None:
    ref = TensorRef(name, (1,), "uint8", 1, via=transfer.kind)
    transfer.release(ref)
    with pytest.raises(TransferError):
        transfer.open(ref)


def test_of_several_buffers_all_are_put_or_none(transfer: Transfers, peer: Peer) -> None:
    def put(to: Transfers, number: int) -> TensorRef:
        if number == 3:
            raise TransferError("no room")
        return put_tensor(to, torch.full((number,), number))

    with pytest.raises(TransferError, match="no room"):
        put_all(transfer, {"a": 1, "b": 2, "c": 3, "d": 4}, put)
    assert transfer.buffers == 0
    refs = put_all(transfer, {"a": 1, "b": 2}, put)
    assert [open_tensor(transfer, ref).tolist() for ref in refs.values()] == [[1], [2, 2]]
    peer.release(refs["b"])
    wait_for_buffers(1, transfer)
    with pytest.raises(TransferError, match="gone"):
        open_tensor(transfer, refs["b"])
    transfer.release(refs["a"])
    wait_for_no_buffers(transfer)


def test_what_passed_is_counted(transfer: Transfers, peer: Peer) -> None:
    before = (transfer.bytes_put, transfer.bytes_opened, transfer.opens)
    refs = [put_tensor(transfer, torch.zeros(3)), peer.put(0, 10)]
    assert transfer.buffers == 1
    for ref in refs:
        transfer.open(ref)
        transfer.release(ref)
    after = (transfer.bytes_put, transfer.bytes_opened, transfer.opens)
    assert tuple(np.subtract(after, before)) == (12, 22, 2)
    wait_for_no_buffers(transfer, peer)
