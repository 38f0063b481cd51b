"""Every published scenario plays, with few requests; and what robustly holds of them holds."""

from __future__ import annotations

import json
import math

import pytest
import typer
from typer.testing import CliRunner

from easerve.cli.options import takes_deployment
from easerve.cli.simulating import SimulateCommand, simulate
from easerve.errors import BadRequest
from easerve.scenarios.describe import Row, Scenario
from easerve.scenarios.hosted import FITTED, HostedCosts
from easerve.scenarios.library import find_scenario, scenarios
from easerve.scenarios.play import Outcome, Played
from easerve.scenarios.searching import searched
from easerve.scenarios.world import deployment
from tests.simulate.worlds import LinearCosts

SEARCHING = [name for name, scenario in scenarios().items() if scenario.searches]
KNEES = [name for name, scenario in scenarios().items() if any(side.rate is None for side in scenario.sides.values())]


@pytest.mark.parametrize("name", [name for name in scenarios() if name not in KNEES + SEARCHING])
def test_a_scenario_gives_a_row_for_each_published_figure(name: str) -> None:
    played = Played(find_scenario(name), requests=2)
    rows = json.loads(json.dumps(played.as_json(), allow_nan=False))["rows"]
    assert [row["name"] for row in rows] == [row.name for row in find_scenario(name).rows]
    assert all(set(row) == {"name", "reported", "simulated", "held_out"} for row in rows)
    assert all(not any(run.all.errors for run in report.runs) for report in played.reports.values())


@pytest.mark.parametrize("name", scenarios())
def test_sides_use_the_devices_that_the_source_has(name: str) -> None:
    """Comparisons are between equal numbers of devices, replicas counted, but for what the post adds for encode; of
    distserve, a part is enough for a lone request."""
    sides = find_scenario(name).sides
    others = [side for key, side in sides.items() if not ("disaggregated" in key or "distserve" in key)]
    counts = {side.devices * side.replicas for side in others}
    assert len(counts) <= 1
    for side in sides.values():
        assert len({entry.name for entry in deployment(side).workers}) == len(deployment(side).workers)


def test_at_most_three_constants_are_fitted_on_few_rows() -> None:
    rows = [row for scenario in scenarios().values() for row in scenario.rows]
    assert len(FITTED.__dataclass_fields__) <= 3
    assert 0 < sum(row.fitted for row in rows) <= 6 < len(rows) / 10


def test_encode_ahead_of_prefill_and_more_prefill_win_under_overload() -> None:
    """Table 5 with a tenth of its requests: orderings by throughput that policy and allocation alone decide."""
    scenario = find_scenario("easerve-table5")
    kept = {name: side for name, side in scenario.sides.items() if name in ("rtx easerve", "rtx epdserve")}
    played = Played(scenario.model_copy(update={"sides": kept}), requests=60)
    ours, theirs = (played.reports[name].runs[0].all for name in ("rtx easerve", "rtx epdserve"))
    assert ours.request_throughput > 1.3 * theirs.request_throughput


def test_the_tail_of_overload_grows_with_the_length_of_the_run() -> None:
    """P99 TTFT ~ N (1/X - 1/rate), X the rate at which first tokens come when there is always work."""
    scenario = find_scenario("easerve-table5")
    side = scenario.sides["rtx epdserve"]
    tails = {}
    for requests in (60, 120):
        played = Played(scenario.model_copy(update={"sides": {"one": side}, "rows": ()}), requests=requests)
        run = played.reports["one"].runs[0]
        firsts = sorted(record.sent + record.ttft for record in run.observed.records)
        pace = (len(firsts) - 1) / (firsts[-1] - firsts[0])
        assert run.all.ttft is not None and side.rate is not None
        tails[requests] = run.all.ttft.p99
        assert tails[requests] == pytest.approx(requests * (1 / pace - 1 / side.rate), rel=0.1)
    assert tails[120] > 1.7 * tails[60]


def test_frames_spread_over_encoders_come_sooner_than_one_after_the_other() -> None:
    played = Played(find_scenario("epdserve-video"), requests=1)
    assert {order.verdict for order in played.orders} == {"as reported"}
    assert all(outcome.near for outcome in played.outcomes if outcome.row.of.startswith(("vllm", "distserve")))


def test_a_search_prunes_and_stops() -> None:
    found = searched(find_scenario("easerve-has").searches["video"].model_copy(update={"requests": 4}), seed=0)
    assert 1 <= found["kept"] < found["allocations"]
    assert 1 <= found["trials"] <= 30
    assert found["hours"] > 0


def test_what_a_host_adds_leaves_the_cost_models_sizes_alone() -> None:
    kernels = LinearCosts()
    hosted = HostedCosts(kernels, FITTED)
    assert hosted.kv_tokens == kernels.kv_tokens
    assert hosted.encode([]) == pytest.approx(FITTED.slowdown * kernels.encode([]))
    assert hosted.step([]) - FITTED.step == pytest.approx(FITTED.slowdown * kernels.step([]))


def test_changes_are_compared_by_what_they_leave() -> None:
    row = Row(name="a", reported=-0.5, of="x", over="y", metric="ttft_mean", relation="change")
    assert math.isclose(Outcome(row, -0.4).ratio, 1.2)
    assert Outcome(row, -0.4).near and not Outcome(row, -0.3).near
    limit = Row(name="b", reported=0.1, of="x", metric="encode_busy", bound="<")
    assert Outcome(limit, 0.02).near and not Outcome(limit, 0.11).near


def test_what_a_scenario_does_not_have_is_said() -> None:
    with pytest.raises(BadRequest, match="easerve-table5"):
        find_scenario("table-5")
    row = {"name": "a", "reported": 1, "of": "nobody", "metric": "knee"}
    with pytest.raises(ValueError, match="nobody"):
        Scenario.model_validate({"name": "x", "title": "", "source": "", "rows": [row]})


def test_the_command_prints_one_json_object() -> None:
    app = typer.Typer()
    app.command(cls=SimulateCommand)(takes_deployment(simulate))
    words = ["--scenario", "easerve-table7", "--json", "--requests", "2"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert {row["held_out"] for row in json.loads(result.stdout)["rows"]} == {True}
    listed = CliRunner().invoke(app, ["--list-scenarios"])
    assert all(name in listed.output for name in scenarios())
