"""Measuring shares, and the file they are kept in."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from easerve.engine.partition.document import ShareDocument, model_name
from easerve.engine.partition.measure import Bench, ShareTimes
from easerve.engine.partition.profiling import Prefills, measure_shares
from easerve.engine.torch.engine import TorchEncoder
from easerve.errors import StartupError
from tests.engine.helpers import Parts

from .conftest import Recorder

TIMES = ShareTimes((1, 4), (1, 2), ((0.2, 0.1), (0.8, 0.4)), ((0.3, 0.25), (0.9, 0.7)), (100.0, 60.0), 120.0)
DOCUMENT = ShareDocument("a chip, 2 cores", "a model 0123", "float32", "core", 224, TIMES)


def test_every_batch_is_measured_on_every_share_beside_prefill_and_alone() -> None:
    device = Recorder(choices=(1, 3))
    batches: list[int] = []
    times = Bench(device, batches.append, lambda: 7, repeats=2).share_times([1, 8])
    assert (times.batches, times.units) == ((1, 8), (1, 3, 4))
    assert all(value > 0 for rows in (times.alone, times.beside) for row in rows for value in row)
    assert [len(rows) for rows in (times.alone, times.beside)] == [2, 2]
    assert {held: batches_of(device, held) for held in (1, 3, None)} == dict.fromkeys((1, 3, None), 2 * 2 * (1 + 2))
    assert {held for stage, held in device.ran if stage == "prefill"} == {1, 3, None}
    assert all(speed > 0 for speed in (*times.prefill_tokens_per_second, times.prefill_alone_tokens_per_second))


def batches_of(device: Recorder, held: int | None) -> int:
    return device.ran.count(("encode", held))


def test_shares_are_decided_by_times_beside_prefill_the_whole_device_by_times_alone() -> None:
    assert TIMES.profile().seconds == ((0.3, 0.1), (0.9, 0.4))


def test_a_prefill_that_fails_ends_the_measurement() -> None:
    def fail() -> int:
        raise ValueError("no such sequence")

    with pytest.raises(ValueError, match="no such sequence"):
        Bench(Recorder(), lambda items: None, fail).share_times([1])


def test_what_would_take_too_long_is_left_out_but_for_the_first() -> None:
    bench = Bench(Recorder(), lambda items: None, lambda: 1)
    assert bench.affordable(12, 60.0) == [1, 2, 4, 8, 12]
    assert bench.affordable(12, 0.0) == [1]


def test_real_engines_are_measured_and_left_idle(qwen: Parts) -> None:
    engine = qwen.engine(max_batched_tokens=64)
    times = measure_shares(Recorder(choices=(2,)), TorchEncoder(qwen.encoder), engine, largest_batch=2, side=56)
    assert times.units == (2, 4)
    assert times.batches[0] == 1
    assert not engine.has_work()
    assert engine.stats().kv_blocks_used == 0


def test_prefill_counts_the_tokens_of_its_prompts(qwen: Parts) -> None:
    prefills = Prefills(qwen.engine(max_batched_tokens=64), tokens=100)
    assert [prefills(), prefills(), prefills()] == [64, 36, 64]


def test_a_document_reads_back_as_it_was_written(tmp_path: Path) -> None:
    DOCUMENT.write(tmp_path / "shares.json")
    assert ShareDocument.read(tmp_path / "shares.json") == DOCUMENT


def test_a_document_of_another_machine_model_or_dtype_is_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "shares.json"
    DOCUMENT.check(file, "a chip, 2 cores", "a model 0123", "float32")
    with pytest.raises(StartupError, match="other hardware: a chip, 2 cores, and this is a chip, 8 cores"):
        DOCUMENT.check(file, "a chip, 8 cores", "a model 0123", "float32")
    with pytest.raises(StartupError, match="other model"):
        DOCUMENT.check(file, "a chip, 2 cores", "a model 4567", "float32")
    with pytest.raises(StartupError, match="other dtype: float32, and this is bfloat16"):
        DOCUMENT.check(file, "a chip, 2 cores", "a model 0123", "bfloat16")


@pytest.mark.parametrize("spoil", ["{", "[]", "{}", "format", "times", "batches"])
def test_what_is_no_document_is_refused_with_the_remedy(tmp_path: Path, spoil: str) -> None:
    file = tmp_path / "shares.json"
    DOCUMENT.write(file)
    content = json.loads(file.read_text())
    match spoil:
        case "format":
            content["format"] = "easerve-shares/0"
        case "times":
            content["times"]["alone"][0][0] = "fast"
            content["times"]["beside"][0][0] = -1
        case "batches":
            del content["times"]["batches"]
    file.write_text(spoil if spoil[0] in "{[" else json.dumps(content))
    with pytest.raises(StartupError, match="easerve profile --stage encode --shares"):
        ShareDocument.read(file)
    with pytest.raises(StartupError, match="No such file"):
        ShareDocument.read(tmp_path / "none.json")


def test_a_model_is_named_by_its_shape(qwen: Parts, tmp_path: Path) -> None:
    (tmp_path / "qwen").mkdir()
    (tmp_path / "qwen" / "config.json").write_text((qwen.folder / "config.json").read_text())
    assert model_name(tmp_path / "qwen") == model_name(qwen.folder)
    (tmp_path / "qwen" / "config.json").write_text("{}")
    assert model_name(tmp_path / "qwen") != model_name(qwen.folder)


def test_times_must_fit_batches_and_units() -> None:
    with pytest.raises(ValueError, match="3 times for each"):
        replace(TIMES, units=(1, 2, 3)).profile()
