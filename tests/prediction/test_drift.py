"""What probes say of a machine that changes, and a profile that is made true of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import asdict, replace

from easerve.builtin import model_path
from easerve.costs.profile_file import DecodeTime, EncodeTime, PrefillTime
from easerve.errors import StartupError
from easerve.profile import probe as probing
from easerve.profile.works import KINDS, PROMPT, SEQUENCES, SIDE, Works
from easerve.workers.spec import parse_device
from tests.simulate.test_front_end import measured


def test_a_run_drifts_by_the_mean_of_before_and_after_stage_by_stage() -> None:
    from drift import drift, joined

    profiled = {"encode": 0.1, "prefill": 0.2, "decode": 0.01}
    before = joined([{"encode": 0.1, "prefill": 0.2}, {"decode": 0.012}])
    after = joined([{"encode": 0.1, "prefill": 0.4}, {"prefill": 0.2, "decode": 0.008}])
    found = drift(profiled, before, after)
    assert (found.encode, found.prefill, found.decode) == pytest.approx((1.0, 1.25, 1.0))
    assert found.mean == pytest.approx(3.25 / 3)
    assert str(found) == "encode 1.00, prefill 1.25, decode 1.00 (± 20%)"


@given(factors=st.tuples(*[st.floats(0.5, 2)] * 3))
def test_every_time_of_a_profile_drifts_and_nothing_else_does(factors: tuple[float, float, float]) -> None:
    from drift import Drift, drifted

    by, old = Drift(*factors), measured()
    new = drifted(old, by)
    for stage, factor in zip((*KINDS, "transfer"), (*factors, by.mean), strict=True):
        for before, after in zip(getattr(old, stage), getattr(new, stage), strict=True):
            assert asdict(after) == {**asdict(before), "seconds": before.seconds * factor}
    for field, seconds in asdict(new.server).items():
        assert seconds == pytest.approx(by.mean * getattr(old.server, field))
    scaled = {*KINDS, "transfer", "server"}
    assert {k: v for k, v in asdict(new).items() if k not in scaled} == {
        k: v for k, v in asdict(old).items() if k not in scaled
    }


def test_a_profile_of_the_comparison_has_the_works_of_a_probe() -> None:
    from drift import said
    from machine_profile import SIZES

    assert max(SIZES.sides) == SIDE and {1} <= set(SIZES.batches)
    profile = replace(
        measured(),
        encode=tuple(EncodeTime(side, 1, batch, side * batch) for side in SIZES.sides for batch in SIZES.batches),
        prefill=tuple(PrefillTime(new, past, new + past / 4) for new in SIZES.new for past in (0, *SIZES.contexts)),
        decode=tuple(DecodeTime(many, past, many + past / 4) for many in SIZES.sequences for past in SIZES.contexts),
    )
    assert said(profile) == {"encode": SIDE, "prefill": PROMPT, "decode": SEQUENCES + PROMPT / 4}
    with pytest.raises(StartupError, match="256, 0"):
        said(replace(profile, prefill=profile.prefill[:1]))


def test_a_probe_times_what_it_is_asked_for_behind_the_same_context_each_time() -> None:
    done: list[str] = []

    def work(kind: str) -> Works:
        def once() -> float:
            done.append(kind)
            return float(len(done))

        return {kind: once}

    works = {**work("encode"), **work("prefill"), **work("decode")}
    found = probing._read(works, {"decode"})
    repeats = probing.REPEATS["decode"]
    assert done == ["prefill", *["decode"] * (1 + repeats)], "a prefill ends the decoding of the last time"
    assert found == {"decode": 2 + (repeats + 1) / 2}
    assert list(probing._read(works, set(KINDS))) == list(KINDS)


def test_a_probe_is_asked_again_and_again() -> None:
    with probing.probe(model_path(), parse_device("cpu:0")) as ask:
        readings = [ask(("encode", "decode")) for _ in range(2)]
    assert all(list(one) == ["encode", "decode"] and min(one.values()) > 0 for one in readings)
