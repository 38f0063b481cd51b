"""tools/train_builtin_model.py on its smallest settings: what a stage teaches, and that a run can be taken up again."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForImageTextToText, Qwen2_5_VLForConditionalGeneration

from easerve.models.registry import load_family

TOOLS = Path(__file__).parents[2] / "tools"
SMALLEST = [
    "--words-first", "2", "--cells-first", "1", "--steps", "4", "--every", "2", "--singles", "1", "--pairs", "1",
    "--told", "1", "--peak", "0.05",
]  # fmt: skip


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Found as Python finds them when they run; torch is left as it was."""
    monkeypatch.syspath_prepend(str(TOOLS))
    threads = torch.get_num_threads()
    with torch.random.fork_rng(devices=[]):
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def train(monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """Runs the script into a folder, with a short evaluation; the checkpoint it leaves."""
    import train_builtin_model as script

    monkeypatch.setattr(script, "HELD_OUT_ROWS", 1)

    def run(folder: Path, *more: str) -> dict[str, Any]:
        state = folder / "state.pt"
        arguments = ["--out", str(folder), "--checkpoint", str(state), *SMALLEST, *more]
        monkeypatch.setattr("sys.argv", ["train_builtin_model.py", *arguments])
        assert script.main() == 0
        saved: dict[str, Any] = torch.load(state, weights_only=True)
        return saved

    return run


def test_a_run_that_was_cut_short_ends_as_one_that_was_not(
    tmp_path: Path, train: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    from training.learner import Learner

    whole = train(tmp_path / "whole")
    save = Learner.save

    def save_and_stop(learner: Learner, path: Path) -> None:
        save(learner, path)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Learner, "save", save_and_stop)
        train(tmp_path / "cut")
    halfway = torch.load(tmp_path / "cut" / "state.pt", weights_only=True)
    resumed = train(tmp_path / "cut", "--resume")
    assert (halfway["step"], resumed["step"], whole["step"]) == (2, 4, 4)
    torch.testing.assert_close(resumed["model"], whole["model"], rtol=0, atol=0)
    for one, other in zip(resumed["optimisers"], whole["optimisers"], strict=True):
        torch.testing.assert_close(one["state"], other["state"], rtol=0, atol=0)
    assert not all(torch.equal(weight, resumed["model"][name]) for name, weight in halfway["model"].items())


def test_the_folder_holds_what_was_learnt(tmp_path: Path, train: Callable[..., dict[str, Any]]) -> None:
    learnt = train(tmp_path, "--steps", "2")["model"]
    loaded = AutoModelForImageTextToText.from_pretrained(tmp_path)
    torch.testing.assert_close(loaded.state_dict(), learnt, rtol=0, atol=0)
    family = load_family(str(tmp_path))
    assert family.image_tokens(168, 84) == 6 * 3
    assert family.image_token_id == loaded.config.image_token_id


@pytest.mark.parametrize(
    ("stage", "taught"), [("words", {"language"}), ("cells", {"visual"}), ("together", {"language", "visual"})]
)
def test_a_stage_teaches_its_part_of_the_model(stage: str, taught: set[str]) -> None:
    from training.lessons import Lessons, stage_of
    from training.shape import make_config
    from training.tokenizer import make_tokenizer

    tokenizer = make_tokenizer()
    model = Qwen2_5_VLForConditionalGeneration(make_config(tokenizer))
    settings = argparse.Namespace(words_first=1, cells_first=1, singles=1, pairs=0, told=1, sums=0.6)
    step = ("words", "cells", "together").index(stage)
    assert stage_of(step, settings) == stage
    Lessons(tokenizer, settings).loss(model, step).backward()
    moved = {name for name, parameter in model.named_parameters() if parameter.grad is not None}
    assert {"visual" if "visual" in name else "language" for name in moved} == taught
