"""Where a checkpoint lies and what its JSON files say. Without torch: the front end reads these too.

Tensors are another matter: see weights.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from easerve.errors import StartupError

_WANTED = ["*.json", "*.safetensors", "*.txt", "*.model", "*.jinja"]  # no .bin: those are never read


def locate(model: str, revision: str | None = None) -> Path:
    """The folder of `model`: a folder itself, or a hub id whose files are in the local cache or get fetched.

    `revision` is a branch, tag or commit on the hub; the folder's name is then the commit. Raises StartupError.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        if revision is not None:
            raise StartupError(
                f"revision {revision!r}: {model} is a folder, and only models of the hub have revisions."
            )
        return folder
    if folder.is_absolute() or model.startswith((".", "~")) or model.count("/") > 1:
        raise StartupError(f"No model folder at {model!r}; give an existing folder or a hub id such as 'org/name'.")
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(model, revision=revision, allow_patterns=_WANTED))
    except Exception as error:  # whatever the hub client meets (offline, unknown id, gated), the remedy is the same
        raise StartupError(
            f"Model {model!r} is neither a folder here nor to be had from the hub ({type(error).__name__}: "
            f"{_first_line(error)}). Check the name and the network, or download the model and give its folder."
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    """The JSON object in `path`; StartupError when there is none."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StartupError(f"{path} is missing; a model folder needs it. Is the download complete?") from error
    except (OSError, ValueError) as error:
        raise StartupError(f"{path} cannot be read as JSON ({_first_line(error)}); restore the file.") from error
    if not isinstance(content, dict):
        raise StartupError(f"{path} holds {type(content).__name__}, not an object; restore the file.")
    return content


def read_processor(folder: Path) -> dict[str, Any]:
    """Image processor settings: nested in processor_config.json as newer files have it, or in their own file."""
    nested = folder / "processor_config.json"
    if nested.is_file():
        settings = read_json(nested).get("image_processor")
        if isinstance(settings, dict):
            return settings
    own = folder / "preprocessor_config.json"
    if not own.is_file():
        raise StartupError(
            f"{folder} has no image processor settings: neither preprocessor_config.json nor an 'image_processor' "
            "in processor_config.json. Copy the file from the original model."
        )
    return read_json(own)


def eos_token_ids(folder: Path, config: Mapping[str, Any]) -> tuple[int, ...]:
    """Tokens that end an answer: what generation_config.json says, or else the model's config."""
    generation = folder / "generation_config.json"
    sources = [read_json(generation)] if generation.is_file() else []
    for source in (*sources, config, config.get("text_config") or {}):
        value = source.get("eos_token_id")
        if value is not None:
            return tuple(value) if isinstance(value, list) else (value,)
    return ()


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
