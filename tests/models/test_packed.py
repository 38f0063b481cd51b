"""Packed weights give the same bits as plain ones."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from easerve.models.packed import pack

pytestmark = pytest.mark.skipif(
    not torch.ops.mkldnn._is_mkldnn_bf16_supported(), reason="this CPU has no bfloat16 kernels: nothing is packed"
)


class Layers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv3d(3, 96, (2, 14, 14), (2, 14, 14))
        self.several = nn.Sequential(nn.Linear(96, 200, bias=False), nn.SiLU(), nn.Linear(200, 40))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.several(self.patches(rows).view(-1, 96))
        return out


def layers(dtype: torch.dtype) -> Layers:
    torch.manual_seed(0)
    return Layers().to(dtype).requires_grad_(False)


@pytest.mark.parametrize("rows", [1, 8, 203])
def test_linear_layers_give_the_same_bits(rows: int) -> None:
    plain, packed = layers(torch.bfloat16).several, pack(layers(torch.bfloat16)).several
    given = torch.randn(rows, 96, dtype=torch.bfloat16)
    assert torch.equal(plain(given), packed(given))
    assert not isinstance(packed[0], nn.Linear)


def test_patches_are_projected_as_by_the_convolution() -> None:
    exact = layers(torch.float32)
    exact.load_state_dict({name: tensor.float() for name, tensor in layers(torch.bfloat16).state_dict().items()})
    given = torch.randn(32, 3, 2, 14, 14).bfloat16()
    wanted = exact.patches(given.float()).view(-1, 96)
    found = pack(layers(torch.bfloat16)).patches(given).view(-1, 96).float()
    assert torch.allclose(found, wanted, rtol=2**-8, atol=2**-8)  # one rounding to bfloat16


def test_what_is_no_bfloat16_stays_as_it_is() -> None:
    assert all(isinstance(one, nn.Linear) for one in list(pack(layers(torch.float32)).several)[::2])
