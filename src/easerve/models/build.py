"""How one part of a model comes into being: modules without initial values, then their tensors from the checkpoint.

Nothing random is drawn, no memory is taken that the part does not keep, and what modules compute for themselves
(rotary frequencies, position ids) is computed on real memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from easerve.errors import StartupError
from easerve.models.packed import pack
from easerve.models.weights import Weights

_BUILDING = threading.Lock()  # transformers patches torch.nn.init, process-wide, while it builds


class WithoutParameters(TorchFunctionMode):
    """While active in a thread, `torch.empty` and `torch.randn` make tensors without memory.

    Layers make their parameters so, since initial values get overwritten anyway; buffers are made by functions that
    give their real values, and stay as they are. `torch.device("meta")` would lose those.
    """

    def __torch_function__(
        self, func: Callable[..., Any], types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in (torch.empty, torch.randn):
            kwargs["device"] = "meta"
        return func(*args, **kwargs)


def read_config(folder: Path) -> Any:
    """The checkpoint's config as transformers understands it, defaults filled in; a fresh object per call."""
    from transformers import AutoConfig

    try:
        return AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # transformers' own checks raise many kinds
        raise StartupError(f"{folder / 'config.json'} is not a usable configuration: {error}") from error


def skeleton(config: Any, **options: Any) -> torch.nn.Module:
    """The modules of `config`, their parameters still without memory."""
    from transformers import AutoModel

    # float32 is torch's default already: transformers sets the process-wide default dtype to what it is told here.
    # The tensors bring the real dtype.
    try:
        with _BUILDING, WithoutParameters():
            module: torch.nn.Module = AutoModel.from_config(config, dtype=torch.float32, **options)
    except (ValueError, TypeError, AttributeError, KeyError, ArithmeticError) as error:
        raise StartupError(f"The config.json of this {config.model_type} does not make a model: {error}") from error
    return module


def fill(
    module: torch.nn.Module, weights: Weights, prefix: str, device: torch.device, dtype: torch.dtype
) -> torch.nn.Module:
    """`module` with its weights, on `device`, for inference only."""
    weights.fill(module, prefix, device, dtype)
    module.to(device)  # buffers; the parameters are there already
    return pack(module.requires_grad_(False).eval())


def own_dtype(config: Any, weights: Weights) -> torch.dtype:
    """The checkpoint's dtype: what config.json says, or else what its files hold."""
    stated = config.dtype
    if isinstance(stated, str):
        stated = getattr(torch, stated, None)
    return stated if isinstance(stated, torch.dtype) else weights.dtype()
