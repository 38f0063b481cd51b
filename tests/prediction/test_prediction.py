"""Figures beside each other, the page they are shown on, and what is compared."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from easerve.bench.plan import Plan, Rates
from easerve.bench.report import Report
from easerve.config import plan_workers
from easerve.costs.profile_file import write_profile
from easerve.errors import EAServeError, StartupError
from tests.simulate.test_front_end import measured
from tests.simulate.worlds import plan, simulation

PAGE = Path(__file__).parents[2] / "docs" / "results" / "prediction.md"


def test_errors_are_parts_of_what_was_measured_and_medians_have_a_tighter_bound() -> None:
    from prediction_table import Figure, summary

    median = Figure("colocated", 2.0, "TTFT P50", measured=0.2, predicted=0.17)
    tail = replace(median, metric="TTFT P99")
    assert median.error == tail.error == pytest.approx(-0.15)
    assert not median.reached and tail.reached
    assert summary([median, tail]) == (
        "P50: 0 of 1 within 10%, median error 15.0%; P99: 1 of 1 within 20%, median error 15.0%"
    )


def test_a_page_shows_every_rate_of_the_newest_results_and_keeps_its_own_words(tmp_path: Path) -> None:
    from prediction_table import BEGIN, END, figures, update_page, write

    load = replace(plan(requests=20), load=Rates((1.0, 4.0)))
    report = simulation(device="cpu").bench(load)
    found = list(figures("colocated", report, report))
    assert [(one.rate, one.metric) for one in found] == [
        (rate, metric) for rate in (1.0, 4.0) for metric in ("TTFT P50", "TTFT P99", "TPOT P50", "TPOT P99")
    ]
    assert all(one.error == 0 and one.measured > 0 for one in found)
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    more = {"command": "the command", "ended": "2026-01-01T00:00", "profiled": "on a machine"}
    assert json.loads(write(tmp_path, "colocated", found, more).read_text())["command"] == "the command"
    update_page(page, tmp_path, ("aggregated", "colocated"))
    text = page.read_text()
    assert text.startswith("before\n") and text.endswith("after\n") and "old" not in text
    assert text.count("| reached |") == len(found) and "`the command`, 2026-01-01; on a machine" in text
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
    """With a simulation in the server's place, there is no error at all."""
    import beside

    profile = tmp_path / "profile.json"
    write_profile(measured(), profile)
    chosen = beside.deployment(Path("builtin"), "e-p-d")
    simulation, seen = beside.simulation_of(chosen, profile), []

    async def served(_: object, load: Plan, *__: object) -> Report:
        seen.append(load)
        return await asyncio.to_thread(simulation.bench, load)

    load = beside.plan("text-only", seed=3, requests=20, warmup=2)
    monkeypatch.setattr(beside, "AT_ONCE", 8)
    monkeypatch.setattr(beside, "_served", served)
    found = beside.beside(chosen, profile, load, tmp_path, Console(quiet=True))
    assert [run.all for run in found.measured.runs] == [run.all for run in found.simulated.runs]
    rates = [run.rate for run in found.simulated.runs]
    assert rates == sorted(rates) and seen[0].load == Rates(rates)
    assert found.simulated.runs[-1].all.request_throughput == pytest.approx(rates[-1], rel=0.5)

    async def refused(*_: object) -> Report:
        report = await served(chosen, seen[0])
        run = report.runs[0]
        failed = replace(run, groups={"all": replace(run.all, errors={"http 503": 1})})
        return replace(report, runs=[failed])

    monkeypatch.setattr(beside, "_served", refused)
    with pytest.raises(EAServeError, match="http 503"):
        beside.beside(chosen, profile, load, tmp_path, Console(quiet=True))
