"""Weights laid out beforehand as the CPU's bfloat16 kernels read them.

A plain `Linear` in bfloat16 has its weight rearranged by oneDNN in every call, which is half of the time of a decode
step. Packed once, the same kernel gives the same bits. A picture's patches go through a convolution whose windows do
not overlap: a matrix product too, and three times as fast as one.
"""

from __future__ import annotations

import torch
from torch import nn


class PackedLinear(nn.Module):
    """(..., features in) -> (..., features out), bfloat16."""

    def __init__(self, weight: torch.Tensor, bias: torch.Tensor | None) -> None:
        super().__init__()
        self.weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach())
        self.bias = None if bias is None else bias.detach()

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = torch.ops.mkldnn._linear_pointwise(rows, self.weight, self.bias, "none", [], "")
        return out


class PackedPatches(PackedLinear):
    """(patches, channels, *kernel) -> (patches, features): a convolution over patches that are each one window."""

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return super().forward(rows.flatten(1))


def pack(module: nn.Module) -> nn.Module:
    """`module` with its linear layers packed, where this machine's kernels gain by it: bfloat16 on a CPU.

    It can only be computed with afterwards: the tensors are not in `state_dict` any more.
    """
    if not torch.ops.mkldnn._is_mkldnn_bf16_supported():
        return module
    for name, child in module.named_children():
        packed = _packed(child)
        setattr(module, name, pack(child) if packed is None else packed)
    return module


def _packed(child: nn.Module) -> nn.Module | None:
    weight = getattr(child, "weight", None)
    if not isinstance(weight, torch.Tensor) or (weight.device.type, weight.dtype) != ("cpu", torch.bfloat16):
        return None
    if type(child) is nn.Linear:
        return PackedLinear(weight, child.bias)
    if type(child) is nn.Conv3d and child.kernel_size == child.stride:  # only Qwen-VL has them, for its patches
        return PackedPatches(weight.flatten(1), child.bias)
    return None
