"""Figures beside each other, the page they are shown on, and what is compared."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from easerve.bench.plan import Plan, Rates
from easerve.config import Deployment, plan_workers
from easerve.costs.profile_file import write_profile
from easerve.errors import EAServeError, StartupError
from easerve.profile.probe import Probe
from easerve.profile.works import KINDS
from tests.simulate.test_front_end import measured
from tests.simulate.worlds import plan, simulation

PAGE = Path(__file__).parents[2] / "docs" / "results" / "prediction.md"


def test_errors_are_parts_of_what_was_measured_and_medians_have_a_tighter_bound() -> None:
    from prediction_table import Figure, summary

    median = Figure("colocated", 2.0, "TTFT P50", measured=0.2, uncorrected=0.1, predicted=0.17, pace="")
    tail = replace(median, metric="TTFT P99")
    assert median.error == tail.error == pytest.approx(-0.15)
    assert not median.reached and tail.reached
    assert summary([median, tail]) == (
        "P50: 0 of 1 within 10%, median error 15.0%; P99: 1 of 1 within 20%, median error 15.0% "
        "(uncorrected: P50: 0 of 1 within 10%, median error 50.0%; P99: 0 of 1 within 20%, median error 50.0%)"
    )


def test_a_page_shows_every_rate_of_the_newest_results_and_keeps_its_own_words(tmp_path: Path) -> None:
    from beside import Served, Trial
    from prediction_table import BEGIN, END, figures, update_page, write

    the_pace = "encode 1.00 ± 0.01"

    def trial(rate: float) -> Trial:
        report = simulation(device="cpu").bench(replace(plan(requests=20), load=Rates((rate,))))
        return Trial(rate, Served(report, []), the_pace, report, report)

    trials = [trial(rate) for rate in (1.0, 4.0)]
    found = [one for trial in trials for one in figures("colocated", trial)]
    assert [(one.rate, one.metric) for one in found] == [
        (rate, metric) for rate in (1.0, 4.0) for metric in ("TTFT P50", "TTFT P99", "TPOT P50", "TPOT P99")
    ]
    assert all(one.error == one.uncorrected_error == 0 and one.measured > 0 for one in found)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    more = {
        "command": "the command",
        "ended": "2026-01-01T00:00",
        "profiled": "on a machine",
        "trials": [trial.as_json("the command") for trial in trials],
    }
    assert json.loads(write(tmp_path, "colocated", found, more).read_text())["command"] == "the command"
    update_page(page, tmp_path, ("aggregated", "colocated"))
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert text.count("| reached |") == text.count(f"| {the_pace} |") == len(found)
    busy, stages = trials[0].as_json("")["measured"]["runs"][0], text.partition("measured / predicted")[2]
    share, encode = busy["utilisation"]["encode-0"]["encode"], busy["stages_mean_ms"]["encode"]
    assert f"encode-0 encode {100 * share:.0f} / {100 * share:.0f} %" in stages
    assert "| colocated | 1 | 0.0 / 0.0 |" in stages and f"| {encode:.1f} / {encode:.1f} |" in stages
    assert "`the command`, 2026-01-01; on a machine" in text
    with pytest.raises(ValueError, match="lacks"):
        update_page(tmp_path / "colocated.json", tmp_path, ())


def test_the_page_of_the_project_has_the_marks() -> None:
    from prediction_table import BEGIN, END

    text = PAGE.read_text()
    assert 0 < text.index(BEGIN) < text.index(END)


def test_workers_of_a_comparison_have_equal_numbers_of_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    from beside import TOPOLOGIES, cores_of, deployment

    def on(cores: int) -> list[int]:
        monkeypatch.setattr("easerve.config.topology.usable_cores", lambda: list(range(cores)))
        return [cores_of(deployment(Path("m"), topology)) for topology in TOPOLOGIES]

    assert on(1) == [1, 1, 1]
    assert on(2) == [2, 1, 1]
    assert on(6) == [6, 3, 2]
    assert [str(one.device) for one in plan_workers(deployment(Path("m"), "e-p-d"))] == [
        "cpu:0,1",
        "cpu:2,3",
        "cpu:4,5",
    ]
    with pytest.raises(StartupError, match=r"\[1, 2\] cores"):
        on(3)


def test_both_sides_get_the_same_plan_at_rates_below_what_the_simulation_carries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a simulation in the server's place, on a machine that has become slower by a half, correction is exact."""
    import beside
    from pace import Beat, Profiled

    path = tmp_path / "profile.json"
    write_profile(measured(), path)
    chosen = beside.deployment(Path("builtin"), "e-p-d")
    seen: list[Plan] = []

    @contextmanager
    def probing(_: Deployment) -> Iterator[Probe]:
        yield lambda kind: 1.5

    async def served(_: Deployment, plans: list[Plan], read: Probe, *__: object) -> list[beside.Served]:
        seen.extend(plans)
        slower = beside.simulation_of(chosen, path, lambda kind, moment: 1.5)
        beats = [Beat(0.0, kind, read(kind)) for kind in KINDS]
        return [beside.Served(await asyncio.to_thread(slower.bench, one), beats) for one in plans]

    load = beside.plan("text-only", seed=3, requests=20, warmup=2)
    monkeypatch.setattr(beside, "AT_ONCE", 8)
    monkeypatch.setattr(beside, "probing", probing)
    monkeypatch.setattr(beside, "_served", served)
    profiled = Profiled(path, dict.fromkeys(KINDS, 1.0), dict.fromkeys(KINDS, 0.0))
    trials = beside.beside(chosen, profiled, load, tmp_path, Console(quiet=True))
    for one in trials:
        ours, theirs, raw = (report.runs[0].all for report in (one.predicted, one.served.report, one.uncorrected))
        assert ours.ttft and theirs.ttft and ours.tpot and theirs.tpot and raw.tpot
        assert asdict(ours.ttft) == pytest.approx(asdict(theirs.ttft))
        assert asdict(ours.tpot) == pytest.approx(asdict(theirs.tpot)) and raw.tpot.p50 < ours.tpot.p50
        assert one.pace.startswith("encode 1.50 ± 0.00")
    rates = [one.rate for one in trials]
    assert rates == sorted(rates) and [one.load for one in seen] == [Rates((rate,)) for rate in rates]
    assert trials[-1].uncorrected.runs[0].all.request_throughput == pytest.approx(rates[-1], rel=0.5)

    async def refused(*given: Any) -> list[beside.Served]:
        run, *others = await served(*given)
        failed = replace(run.report.runs[0], groups={"all": replace(run.report.runs[0].all, errors={"http 503": 1})})
        return [replace(run, report=replace(run.report, runs=[failed])), *others]

    monkeypatch.setattr(beside, "_served", refused)
    with pytest.raises(EAServeError, match="http 503"):
        beside.beside(chosen, profiled, load, tmp_path, Console(quiet=True))
