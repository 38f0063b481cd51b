"""Which tensors of a checkpoint a part needs, and where they lie in its safetensors files.

Checkpoints name the same tensor differently, depending on who saved them and when; `canonical` maps every known
layout to one. Only the tensors asked for are read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from easerve.errors import StartupError
from easerve.models.checkpoint import read_json

_LAYOUTS = (  # applied in this order
    (re.compile(r"^model\."), ""),  # today's modules: everything but the head sits under `model.`
    (re.compile(r"^language_model\.lm_head\."), "lm_head."),  # older LLaVA: a whole causal model inside
    (re.compile(r"^language_model\.model\."), "language_model."),
    (re.compile(r"^vision_tower\.vision_model\."), "vision_tower."),  # older CLIP and SigLIP towers
    (re.compile(r"^(layers|embed_tokens|norm)\."), r"language_model.\1."),  # older Qwen-VL: decoder at the top
)


def canonical(name: str) -> str:
    """The one name a tensor has here: `visual.*`, `vision_tower.*`, `language_model.*`, `lm_head.*`, ..."""
    for pattern, replacement in _LAYOUTS:
        name = pattern.sub(replacement, name)
    return name


class Weights:
    """The tensors of a model folder, by canonical name; read when asked for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._where = {canonical(name): (file, name) for name, file in _listing(folder).items()}

    def __contains__(self, name: str) -> bool:
        return name in self._where

    def dtype(self) -> torch.dtype:
        """The dtype of the first tensor; for configs that do not say."""
        file, name = next(iter(self._where.values()))
        tensor = _read(file, [name])[name]
        return tensor.dtype if tensor.is_floating_point() else torch.get_default_dtype()

    def read(
        self, wanted: Mapping[str, torch.Size], device: torch.device, dtype: torch.dtype
    ) -> dict[str, torch.Tensor]:
        """Tensors of these canonical names and shapes, each in memory of its own; StartupError if one is not there."""
        self._require(wanted)
        by_file: dict[Path, dict[str, str]] = defaultdict(dict)
        for name in wanted:
            file, stored = self._where[name]
            by_file[file][stored] = name
        found: dict[str, torch.Tensor] = {}
        for file, names in by_file.items():
            for stored, tensor in _read(file, names).items():
                name = names[stored]
                self._require_shape(name, tensor.shape, wanted[name])
                # A copy: what was read is a view of the mapped file.
                found[name] = tensor.to(device, dtype, copy=True)
        return found

    def fill(self, module: torch.nn.Module, prefix: str, device: torch.device, dtype: torch.dtype) -> None:
        """Give every parameter of `module` its tensor; `prefix` is where the module sits in the whole model."""
        empty = module.state_dict()
        names = {own: canonical(prefix + own) for own in empty}
        tensors = self.read({name: empty[own].shape for own, name in names.items()}, device, dtype)
        module.load_state_dict({own: tensors[name] for own, name in names.items()}, assign=True)

    def _require(self, wanted: Collection[str]) -> None:
        missing = [name for name in wanted if name not in self._where]
        if missing:
            raise StartupError(
                f"{self.folder} lacks {len(missing)} of {len(wanted)} tensors, first {missing[0]!r}. "
                "Is the download complete, and does config.json belong to these weights?"
            )

    def _require_shape(self, name: str, found: torch.Size, wanted: torch.Size) -> None:
        if found != wanted:
            raise StartupError(
                f"Tensor {name!r} in {self.folder} has the shape {tuple(found)}, but config.json asks for "
                f"{tuple(wanted)}: the two do not belong together."
            )


def _read(file: Path, stored_names: Iterable[str]) -> dict[str, torch.Tensor]:
    try:
        with safe_open(file, framework="pt", device="cpu") as opened:
            return {name: opened.get_tensor(name) for name in stored_names}
    except (OSError, SafetensorError) as error:
        raise StartupError(f"{file} cannot be read ({error}); download it again.") from error


def _listing(folder: Path) -> dict[str, Path]:
    """Stored name -> file, from the index of a sharded checkpoint or from the only file."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        return {name: folder / file for name, file in _weight_map(index).items()}
    single = folder / "model.safetensors"
    if not single.is_file():
        raise StartupError(_no_weights(folder))
    try:
        with safe_open(single, framework="pt") as opened:
            names = list(opened.keys())
    except (OSError, SafetensorError) as error:
        raise StartupError(f"{single} cannot be read ({error}); download it again.") from error
    if not names:
        raise StartupError(f"{single} holds no tensors; download it again.")
    return dict.fromkeys(names, single)


def _weight_map(index: Path) -> dict[str, Any]:
    mapping = read_json(index).get("weight_map")
    if not isinstance(mapping, dict) or not mapping:
        raise StartupError(f"{index} has no 'weight_map'; download it again.")
    return mapping


def _no_weights(folder: Path) -> str:
    if any(folder.glob("*.bin")) or any(folder.glob("*.pt")):
        return (
            f"{folder} has its weights as pickles only (.bin, .pt), which are not loaded: unpickling runs code. "
            "Convert it once with transformers: `from_pretrained(...)`, then `save_pretrained(...)`."
        )
    return f"{folder} has no model.safetensors and no model.safetensors.index.json. Is the download complete?"
