"""A profile of the built-in model on this machine, and the costs that come from one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from easerve.builtin import model_path
from easerve.costs.base import ChunkSize, ItemSize
from easerve.costs.make import make_costs
from easerve.costs.profile_file import (
    DecodeTime,
    EncodeTime,
    Machine,
    Model,
    PrefillTime,
    Profile,
    TransferTime,
    read_profile,
    write_profile,
)
from easerve.costs.profiled import ProfiledCosts, ProfiledLink
from easerve.costs.shapes.find import find_shape
from easerve.costs.sharing import Contention
from easerve.errors import StartupError
from easerve.profile.plan import Plan
from easerve.profile.run import merged, run_profile
from easerve.profile.table import show
from easerve.workers.spec import parse_device

TINY = Plan(
    sides=(56, 112, 113),
    batches=(1, 3),
    new=(8, 512),
    contexts=(16, 40),
    sequences=(1, 2),
    nbytes=(4096, 2**20),
    repeats=1,
)


def made_up() -> Profile:
    """Times that a straight line gives: what is interpolated is known."""
    return Profile(
        machine=Machine("a processor", "cpu:0", "2"),
        model=Model("model", find_shape("builtin").parameters, "auto"),
        kv_bytes_per_token=100,
        embedding_bytes_per_token=10,
        kv_tokens=1000,
        encode=tuple(EncodeTime(p, p // 4, b, 0.01 + 1e-5 * p * b) for p in (16, 64, 256) for b in (1, 4)),
        prefill=tuple(PrefillTime(n, c, 0.01 + 1e-4 * n + 1e-7 * n * c) for n in (16, 512) for c in (0, 512)),
        decode=tuple(DecodeTime(n, c, 0.01 + 1e-4 * n + 1e-7 * n * c) for n in (1, 8) for c in (16, 512)),
        transfer=(TransferTime(1000, 0.001), TransferTime(2000, 0.0015)),
        transfer_kind="shm",
    )


@pytest.fixture
def own_cores() -> Iterator[None]:
    """Profiling binds the process that it runs in."""
    cores = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, cores)


@pytest.mark.usefixtures("own_cores")
def test_what_was_measured_comes_back_as_costs(tmp_path: Path) -> None:
    told: list[str] = []
    profile = run_profile(
        model_path(), parse_device("cpu:0"), plan=TINY, report=lambda stage, point: told.append(stage)
    )
    assert [(one.patches, one.tokens, one.batch) for one in profile.encode] == [
        (16, 4, 1), (16, 4, 3), (64, 16, 1), (64, 16, 3),
    ]  # fmt: skip
    assert {(one.new, one.context) for one in profile.prefill} >= {(8, 0), (512, 0), (8, 512), (512, 512), (512, 2048)}
    assert {(one.sequences, one.context) for one in profile.decode} == {(1, 16), (2, 16), (1, 40), (2, 40)}
    assert len(told) == sum(map(len, (profile.encode, profile.prefill, profile.decode, profile.transfer)))
    assert (profile.kv_bytes_per_token, profile.embedding_bytes_per_token) == (2 * 4 * 5 * 32 * 4, 160 * 4)  # float32

    path = tmp_path / "profile.json"
    write_profile(profile, path)
    assert read_profile(path) == profile
    costs = make_costs("builtin", "cpu", profile=path)
    assert costs.kv_tokens == profile.kv_tokens > 0
    small, large = profile.encode[0], profile.encode[3]
    assert costs.encode([ItemSize(16, 4)]) == small.seconds
    assert costs.encode([ItemSize(64, 16)] * 3) >= large.seconds * 0.999
    show(profile, Console(file=(tmp_path / "table").open("w")))
    assert "transfer over shm" in (tmp_path / "table").read_text()


@given(
    st.integers(16, 600), st.integers(0, 600), st.integers(1, 12), st.integers(16, 600), st.integers(16, 300),
    st.integers(1, 6),
)  # fmt: skip
def test_between_sizes_costs_lie_on_the_line_between_them(
    new: int, context: int, sequences: int, seen: int, patches: int, batch: int
) -> None:
    costs = ProfiledCosts(made_up(), Path("p"), Contention())
    prefill = 0.01 + 1e-4 * new + 1e-7 * new * context
    decode = 0.01 + 1e-4 * sequences + 1e-7 * sequences * seen
    assert costs.encode([ItemSize(patches, 4)] * batch) == pytest.approx(0.01 + 1e-5 * patches * batch)
    assert costs.step([ChunkSize(new, context)]) == pytest.approx(prefill)
    assert costs.step([ChunkSize(1, seen)] * sequences) == pytest.approx(decode)
    both = costs.step([ChunkSize(1, seen)] * sequences + [ChunkSize(new, context)])
    assert both == pytest.approx(prefill + decode - costs.step([ChunkSize(1, 16)]))  # what any step costs, once


def test_a_link_is_the_line_through_what_was_measured() -> None:
    link = ProfiledLink(made_up(), Path("p"))
    assert [link.seconds(n) for n in (0, 500, 1500, 4000)] == pytest.approx([0, 0.001, 0.00125, 0.0025])


def test_measuring_one_stage_keeps_the_others_of_the_same_machine_and_model() -> None:
    old = made_up()
    new = msgspec.structs.replace(
        old, encode=(EncodeTime(16, 4, 1, 7.0),), prefill=(), decode=(), transfer=(), transfer_kind="", kv_tokens=0
    )
    whole = merged(old, new)
    assert (whole.encode, whole.prefill, whole.transfer_kind, whole.kv_tokens) == (new.encode, old.prefill, "shm", 1000)
    elsewhere = msgspec.structs.replace(old, machine=Machine("another", "cpu:0", "2"))
    assert merged(elsewhere, new) == new


def test_a_profile_that_does_not_fit_is_refused_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "profile.json"
    with pytest.raises(StartupError, match=r"No such file.*easerve profile"):
        make_costs("builtin", "cpu", profile=path)
    path.write_text('{"format": "easerve-profile/1"}')
    with pytest.raises(StartupError, match="is no profile"):
        read_profile(path)
    write_profile(msgspec.structs.replace(made_up(), format="easerve-profile/9"), path)
    with pytest.raises(StartupError, match="easerve-profile/9"):
        read_profile(path)
    write_profile(msgspec.structs.replace(made_up(), decode=(), transfer=()), path)
    with pytest.raises(StartupError, match="measured on cpu:0"):
        make_costs("builtin", "a100", profile=path)
    with pytest.raises(StartupError, match=r"not with qwen2\.5-vl-7b"):
        make_costs("qwen2.5-vl-7b", "cpu", profile=path)
    with pytest.raises(StartupError, match=r"no times of decode.*--stage decode"):
        make_costs("builtin", "cpu", profile=path).step([ChunkSize(1, 5)])
    with pytest.raises(StartupError, match="no times of transfer"):
        ProfiledLink(read_profile(path), path)


@pytest.mark.usefixtures("own_cores")
def test_points_that_would_take_too_long_are_left_out() -> None:
    plan = replace(TINY, patience=0.0)
    profile = run_profile(model_path(), parse_device("cpu:0"), plan=plan, stages=("encode", "prefill", "decode"))
    assert [one.batch for one in profile.encode] == [1, 1]  # the first of each size shows how long the next takes
    assert (len(profile.prefill), profile.decode, profile.transfer) == (1, (), ())


@pytest.mark.usefixtures("own_cores")
def test_the_command_writes_the_stages_it_was_asked_for(tmp_path: Path) -> None:
    from typer.testing import CliRunner

    from easerve.cli.app import app

    def run(*words: str) -> BaseException | None:
        return CliRunner().invoke(app, ["profile", "--out", str(tmp_path / "p.json"), *words]).exception

    assert run("--stage", "transfer", "--repeats", "1") is None
    profile = read_profile(tmp_path / "p.json")
    assert profile.transfer and not profile.encode and profile.model.parameters == find_shape("builtin").parameters
    assert "encode, prefill, decode, transfer" in str(run("--stage", "encod"))
    assert "--stage encode" in str(run("--shares"))
