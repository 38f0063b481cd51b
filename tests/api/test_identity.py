"""Content keys stand for a checkpoint's content: not for its place, and not for another's."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file, save_file

from easerve.api.identity import content_salt
from easerve.errors import StartupError

SHARDS = ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors")
SIZES = (0, 1, 1000, 5000, 40_000)  # values of tensors of four bytes each: all between the ends, or not


def salt(folder: Path, processor: bytes = b"settings") -> bytes:
    return content_salt(folder, processor)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "model"
    made.mkdir()
    (made / "config.json").write_text('{"architectures": ["Some"]}')
    (made / "model.safetensors.index.json").write_text('{"weight_map": {}}')
    for shard in SHARDS:
        save_file({f"tensor {size}": np.zeros(size, np.float32) for size in SIZES}, made / shard)
    return made


def test_a_copy_and_a_link_are_the_same_checkpoint(folder: Path) -> None:
    copy, links = folder.with_name("copy"), folder.with_name("links")
    shutil.copytree(folder, copy, copy_function=shutil.copyfile)  # with times of its own
    links.mkdir()
    for file in folder.iterdir():
        (links / file.name).symlink_to(file)  # as the hub's cache has it
    assert salt(folder) == salt(copy) == salt(links)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(shard=st.sampled_from(SHARDS), size=st.sampled_from(SIZES[1:]), seed=st.integers(0, 2**32 - 1))
def test_training_any_one_tensor_makes_another_checkpoint(folder: Path, shard: str, size: int, seed: int) -> None:
    """Files keep their sizes; one tensor's values differ, a tenth of them at least."""
    trained = folder.with_name("trained")
    shutil.copytree(folder, trained, dirs_exist_ok=True)
    tensors = load_file(trained / shard)
    changed = np.random.default_rng(seed).random(size) < 0.1
    tensors[f"tensor {size}"][changed if changed.any() else slice(None)] = 1
    save_file(tensors, trained / shard)
    assert (trained / shard).stat().st_size == (folder / shard).stat().st_size
    assert salt(trained) != salt(folder)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors.index.json"])
def test_another_configuration_is_another_checkpoint(folder: Path, name: str) -> None:
    before = salt(folder)
    (folder / name).write_text("{}")
    assert salt(folder) != before


def test_other_processor_settings_have_other_keys(folder: Path) -> None:
    assert salt(folder, b"one") != salt(folder, b"another")


@pytest.mark.parametrize("content", [b"", b"\xff" * 20, (5).to_bytes(8, "little") + b"[1,2]"])
def test_a_broken_weight_file_is_named(folder: Path, content: bytes) -> None:
    (folder / SHARDS[1]).write_bytes(content)
    with pytest.raises(StartupError, match=SHARDS[1]):
        salt(folder)
