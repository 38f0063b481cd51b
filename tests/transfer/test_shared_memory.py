"""Shared memory: what arrives is what was sent, from another process too; sizes are checked; nothing stays behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.extra import numpy as hnp

from easerve.errors import TransferError
from easerve.request import TensorRef
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.shm import SharedMemory
from easerve.transfer.tensors import open_tensor, put_tensor


@pytest.fixture
def memory(tmp_path: Path) -> SharedMemory:
    return SharedMemory(tmp_path, "test")


@settings(max_examples=50, deadline=None)
@given(hnp.arrays(np.uint8, hnp.array_shapes(min_dims=3, max_dims=3, min_side=1, max_side=9)))
def test_arrays_come_back_as_they_were(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray) -> None:
    folder = tmp_path_factory.mktemp("shm")
    store = ArrayStore(SharedMemory(folder, "test"))
    ref = store.put(array)
    opened = store.open(ref)
    store.release(ref)
    store.release(ref)
    assert np.array_equal(opened, array), "the view must outlive the release"
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64])
def test_tensors_of_any_dtype_come_back_as_they_were(memory: SharedMemory, dtype: torch.dtype) -> None:
    tensor = torch.randn(7, 5).mul(100).to(dtype).T  # not contiguous
    assert torch.equal(open_tensor(memory, put_tensor(memory, tensor)), tensor)


def test_another_process_can_open_it(memory: SharedMemory, tmp_path: Path) -> None:
    ref = ArrayStore(memory).put(np.arange(12, dtype=np.uint8).reshape(3, 4))
    code = (
        "import sys, msgspec; from pathlib import Path; from easerve.request import TensorRef;"
        "from easerve.transfer.arrays import ArrayStore; from easerve.transfer.shm import SharedMemory;"
        "ref = msgspec.json.decode(sys.argv[2], type=TensorRef);"
        "print(ArrayStore(SharedMemory(Path(sys.argv[1]), 'other')).open(ref).sum())"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path), msgspec.json.encode(ref).decode()]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip() == "66"


def test_gone_wrong_length_and_wrong_type_are_told(memory: SharedMemory) -> None:
    store = ArrayStore(memory)
    ref = store.put(np.zeros((4, 4), np.uint8))
    for wrong in (
        msgspec.structs.replace(ref, nbytes=15),
        msgspec.structs.replace(ref, shape=(4, 5)),
        msgspec.structs.replace(ref, dtype="no such"),
        TensorRef("never-was", (1,), "uint8", 1),
    ):
        with pytest.raises(TransferError):
            store.open(wrong)
    with pytest.raises(TransferError):
        open_tensor(memory, msgspec.structs.replace(ref, dtype="Tensor"))
    memory.release(ref)
    with pytest.raises(TransferError, match="gone"):
        store.open(ref)
