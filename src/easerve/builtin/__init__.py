"""The built-in model: a tiny vision-language model with trained weights, and the scenes it understands."""

from __future__ import annotations

from pathlib import Path


def model_path() -> Path:
    """The folder of the built-in model, in Hugging Face layout."""
    return Path(__file__).parent / "model"
