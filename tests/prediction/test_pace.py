"""What probes say of a machine that changes its speed while it is profiled, and while a server runs on it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from easerve.builtin import model_path
from easerve.config import Deployment
from easerve.costs.profile_file import DecodeTime, EncodeTime, PrefillTime, Profile
from easerve.errors import StartupError
from easerve.profile.plan import STAGES
from easerve.profile.probe import Probe, probe
from easerve.profile.steady import Steady
from easerve.profile.works import KINDS
from easerve.workers.spec import Device, parse_device
from tests.simulate.test_front_end import measured


def profile() -> Profile:
    return replace(
        measured(),
        encode=tuple(EncodeTime(16, 4, batch, 0.1 * batch) for batch in (1, 2, 3)),
        prefill=tuple(PrefillTime(new, 0, 0.01 * new) for new in (2, 3, 4)),
        decode=tuple(DecodeTime(sequences, 8, 0.01 + sequences) for sequences in (1, 2, 3)),
    )


def scaled(points: Sequence[Any], factors: Sequence[float]) -> tuple[Any, ...]:
    return tuple(replace(one, seconds=one.seconds * factor) for one, factor in zip(points, factors, strict=True))


@given(readings=st.lists(st.floats(0.5, 2), min_size=9, max_size=9))
def test_a_profile_of_a_machine_that_changes_its_speed_is_one_of_an_even_machine(readings: list[float]) -> None:
    """Each time is slower by as much as the probe around it was, and the corrected ones by what it was on average."""
    even, told = profile(), list[str]()
    around = {
        kind: [first, (first + second) / 2, (second + third) / 2]
        for kind, (first, second, third) in zip(
            KINDS, zip(readings[::3], readings[1::3], readings[2::3], strict=True), strict=True
        )
    }
    unsteady = replace(even, **{kind: scaled(getattr(even, kind), factors) for kind, factors in around.items()})
    left = iter(readings)
    steady = Steady(lambda kind: next(left), lambda stage, point: told.append(stage))
    for stage in STAGES:
        for point in getattr(unsteady, stage):
            steady.measured(stage, point)
    assert told == [stage for stage in STAGES for _ in getattr(even, stage)] and next(left, None) is None
    found = steady.corrected(unsteady)
    for kind in KINDS:
        wanted = scaled(getattr(even, kind), [steady.reference[kind]] * 3)
        assert [one.seconds for one in getattr(found, kind)] == pytest.approx([one.seconds for one in wanted])
    untouched = dict.fromkeys(KINDS, ())
    assert replace(found, **untouched) == replace(even, **untouched)


def test_a_probe_is_asked_again_and_again_and_says_when_it_has_died() -> None:
    with probe(model_path(), parse_device("cpu:0")) as read:
        assert min(read(kind) for kind in (*KINDS, *KINDS)) > 0
        with pytest.raises(StartupError, match="has died"):
            read("nothing that it can do")


def test_stages_are_read_where_workers_do_them(monkeypatch: pytest.MonkeyPatch) -> None:
    import pace

    @contextmanager
    def numbered(folder: Path, device: Device) -> Iterator[Probe]:
        yield lambda kind: float(device.indices[0] + 1)

    monkeypatch.setattr("easerve.config.topology.usable_cores", lambda: [0, 1])
    monkeypatch.setattr(pace, "probe", numbered)
    for topology, wanted in (("aggregated", [1, 1, 1]), ("colocated", [1, 2, 2]), ("e-p-d", [1, 1, 2])):
        with pace.probing(Deployment(model="m", topology=topology, device="cpu")) as read:
            assert [read(kind) for kind in KINDS] == wanted


def test_a_run_is_watched_throughout_and_what_a_probe_raises_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    import pace

    monkeypatch.setattr(pace, "PERIOD", 0.001)
    with pace.watching(lambda kind: 1.0) as beats:
        while len(beats) < 7:
            pass
    assert [beat.kind for beat in beats[:7]] == [*KINDS, *KINDS, KINDS[0]]
    moments = [beat.moment for beat in pace.since(beats[3].moment, beats)]
    assert moments == sorted(moments) and moments[3] == 0.0 > moments[0]
    with pace.watching(lambda kind: 1.0) as beats:
        pass
    assert [beat.kind for beat in beats] == list(KINDS), "of the shortest run all kinds are known"

    def dead(kind: str) -> float:
        raise StartupError("has died")

    with pytest.raises(StartupError, match="has died"), pace.watching(dead):
        pass


def test_a_course_is_the_mean_of_readings_nearby_over_those_of_the_profile() -> None:
    import pace

    readings = [0.2, 0.2, 0.8, 0.2, 0.2]
    beats = [pace.Beat(float(moment), kind, one) for moment, one in enumerate(readings) for kind in KINDS]
    found = pace.course(beats, {"encode": 0.1, "prefill": 0.2, "decode": 0.4})
    assert [found("encode", moment) for moment in (-1.0, 0.0, 1.5, 2.0, 9.0)] == pytest.approx([2, 2, 4, 4, 2])
    assert found("prefill", 2.0) == pytest.approx(2.0) and found("decode", 2.0) == pytest.approx(1.0)
    assert pace.words(beats, {"encode": 0.1, "prefill": 0.2, "decode": 0.4}).startswith("encode 3.20 ± 2.40, prefill")


def test_what_probes_read_while_a_profile_was_taken_stays_beside_it(tmp_path: Path) -> None:
    from pace import Profiled

    path = tmp_path / "profile.json"
    one = Profiled(path, dict.fromkeys(KINDS, 0.5), dict.fromkeys(KINDS, 0.25))
    one.write()
    assert not Profiled.there(path), "without the profile it is of no use"
    path.touch()
    assert Profiled.there(path) and Profiled.read(path) == one
