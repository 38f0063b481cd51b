"""The model as the front end knows it: its name, its text side, what a picture costs, and the limits."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from easerve.api.identity import content_salt
from easerve.api.text import TextCodec, load_codec
from easerve.errors import ModelNotFound


class PictureRules(Protocol):
    """The part of a model family that the front end needs; `easerve.models.base.Family` has it."""

    @property
    def image_token_id(self) -> int: ...

    @property
    def context_length(self) -> int: ...

    def image_tokens(self, height: int, width: int) -> int: ...

    def fingerprint(self) -> bytes: ...


class ModelFiles(PictureRules, Protocol):
    """A family together with the checkpoint it was read from."""

    folder: Path


@dataclass(frozen=True)
class ServedModel:
    """A model ready to be served."""

    name: str
    codec: TextCodec
    rules: PictureRules
    max_model_len: int  # tokens of prompt and answer together
    salt: bytes  # of content keys: which checkpoint, and its processor settings
    default_sampling: Mapping[str, float] = field(default_factory=dict)  # for fields a request leaves out
    created: int = field(default_factory=lambda: int(time.time()))  # Unix seconds

    def within(self, tokens: int) -> ServedModel:
        """This model with at most `tokens` per prompt and answer, as the engines or the operator have it."""
        return replace(self, max_model_len=min(self.max_model_len, tokens))

    def check_name(self, name: str | None) -> str:
        """The name to answer with; no name means the one model. Raises ModelNotFound."""
        if name not in (None, self.name):
            raise ModelNotFound(f"the model {name!r} is not served here; served: {self.name}", param="model")
        return self.name


def load_served_model(family: ModelFiles, name: str) -> ServedModel:
    """The front end's half of a checkpoint, to be served as `name`. Raises StartupError."""
    return ServedModel(
        name=name,
        codec=load_codec(family.folder),
        rules=family,
        max_model_len=family.context_length,
        salt=content_salt(family.folder, family.fingerprint()),
        default_sampling=_default_sampling(family.folder),
    )


def _default_sampling(folder: Path) -> dict[str, float]:
    """What generation_config.json recommends; `do_sample: false` means greedy."""
    file = folder / "generation_config.json"
    settings: dict[str, Any] = json.loads(file.read_bytes()) if file.is_file() else {}
    names = ("temperature", "top_p", "top_k", "min_p", "repetition_penalty")
    found = {name: settings[name] for name in names if isinstance(settings.get(name), int | float)}
    if settings.get("do_sample") is False:
        found["temperature"] = 0.0
    return found
