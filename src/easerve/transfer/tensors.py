"""torch tensors over a transfer: embeddings and KV between workers."""

from __future__ import annotations

import torch

from easerve.errors import TransferError
from easerve.request import TensorRef
from easerve.transfer.base import Transfer


def put_tensor(transfer: Transfer, tensor: torch.Tensor) -> TensorRef:
    """Copy a tensor, from whatever device it is on, to where other processes can open it."""
    tensor = tensor.detach().contiguous().cpu()
    data = tensor.reshape(-1).view(torch.uint8).numpy().data
    return transfer.put(data, tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."))


def open_tensor(transfer: Transfer, ref: TensorRef) -> torch.Tensor:
    """The tensor on the CPU, without a copy. Raises TransferError if bytes, shape and dtype disagree."""
    dtype = getattr(torch, ref.dtype, None)
    if not isinstance(dtype, torch.dtype):
        raise TransferError(f"buffer {ref.name} has an unknown dtype {ref.dtype!r}")
    data = transfer.open(ref)
    try:
        flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        return flat.reshape(ref.shape)
    except (RuntimeError, ValueError) as error:
        raise TransferError(f"buffer {ref.name} is no {ref.dtype} tensor of shape {ref.shape}") from error
