"""What each mechanism is worth, in virtual time: one setting after the other, all else as it was.

    python benchmarks/ablations.py --page docs/results/ablations.md

Takes a few minutes on one core; nothing is measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from easerve.bench.arrivals import Arrivals
from easerve.bench.report import Report
from easerve.scenarios.describe import Group, Scenario, Side
from easerve.scenarios.library import find_scenario
from easerve.scenarios.metrics import measure
from easerve.scenarios.play import Played

RULES = ("greedy", "count", "age", "gap", "control_limit", "smdp")
CVS = (0.5, 1.0, 2.0)
LOADS = (30, 250)  # requests a second
RATIOS = tuple(step / 10 for step in range(11))
IMAGES, ANSWERS = (1, 2, 5, 10), (32, 128, 512, 2048)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="file to write (default: print)")
    parser.add_argument("--requests", type=int, help="of each run, for a quick look")
    arguments = parser.parse_args()
    text = "\n".join(_page(arguments.requests)) + "\n"
    if arguments.page is None:
        print(text)
    else:
        arguments.page.write_text(text, encoding="utf-8")


def _page(requests: int | None) -> Iterator[str]:
    yield "# Ablations"
    yield ""
    yield "Written by `python benchmarks/ablations.py --page docs/results/ablations.md`. Everything is **simulated**:"
    yield "virtual time over the cost model of [costs](../costs.md), with the constants of [published](published.md)."
    yield ""
    yield from _batching(requests)
    yield ""
    yield from _offload(requests)
    yield ""
    yield from _heat_map(requests)


def _batching(requests: int | None) -> Iterator[str]:
    yield "## Batching rules by burstiness of arrivals"
    yield ""
    yield "One encode device and four for prefill and decode (A100, Qwen2.5-VL-7B); requests with one small picture"
    yield "(112x112), 64 words, answers of 16 tokens; Gamma gaps; B = 8. TTFT in ms, mean / P99, at 30 and at 250"
    yield "requests a second, of which one picture a forward would keep encode busy for 15 % and for 122 % of the time."
    yield ""
    sides = {f"{rule} {rate} {cv}": _encoding(rule, rate, cv) for rule in RULES for rate in LOADS for cv in CVS}
    reports = _played(sides, requests)
    cells = {}
    for rule in RULES:
        for rate in LOADS:
            for cv in CVS:
                report = reports[f"{rule} {rate} {cv}"]
                both = (1000 * measure(report, metric) for metric in ("ttft_mean", "ttft_p99"))
                cells[rule, f"{rate}/s, CV {cv:g}"] = "{:.0f} / {:.0f}".format(*both)
    yield from _table("rule", cells)


def _encoding(rule: str, rate: float, cv: float) -> Side:
    return Side(
        model="qwen2.5-vl-7b",
        hardware="a100",
        link="nvlink",
        rate=rate,
        requests=1000,
        workers={
            "encode": Group(stages=("encode",)),
            "generate": Group(stages=("prefill", "decode"), count=4),
        },
        settings={"batching": rule, "encode_batch": 8},
        workload={"kind": "drawn", "images": 1, "size": (112, 112), "output_tokens": 16},
        arrivals=Arrivals("gamma", cv),
    )


def _offload(requests: int | None) -> Iterator[str]:
    yield "## Remote ratio s"
    yield ""
    yield "The deployment of easerve-table5 on RTX 6000 Ada: LLaVA-v1.6-34B, encode with local prefill on 2 devices,"
    yield "prefill on 2, decode on twice 2. P99 TTFT at 1.5 requests a second; throughput at 5."
    yield ""
    base = find_scenario("easerve-table5").sides["rtx easerve"]
    sides = {
        f"{ratio} {rate}": base.model_copy(
            update={"settings": {**base.settings, "remote_ratio": ratio}, "rate": rate, "requests": 300}
        )
        for ratio in RATIOS for rate in (1.5, 5.0)
    }  # fmt: skip
    reports = _played(sides, requests)
    cells = {}
    for ratio in RATIOS:
        cells[f"{ratio:g}", "P99 TTFT, s"] = f"{measure(reports[f'{ratio} 1.5'], 'ttft_p99'):.1f}"
        cells[f"{ratio:g}", "throughput, req/s"] = f"{measure(reports[f'{ratio} 5.0'], 'throughput'):.2f}"
    yield from _table("s", cells)


def _heat_map(requests: int | None) -> Iterator[str]:
    yield "## Pictures by length of the answer"
    yield ""
    yield "Qwen3.5-122B-A10B in nvfp4 on four GB200, one request every 2 s, deployments of dynamo-epd: how many times"
    yield "as long aggregated servers take, TTFT / E2E. Above 1 the deployment is faster. By model size and precision:"
    yield "dynamo-model-size in [published](published.md)."
    known = find_scenario("dynamo-epd").sides
    kinds = {kind: known[f"ten {kind}"] for kind in ("aggregated", "colocated", "disaggregated")}
    for kind in ("colocated", "disaggregated"):
        cells = {}
        for images in IMAGES:
            sides = {
                f"{name} {answer}": _with(kinds[name], images=images, output_tokens=answer)
                for name in ("aggregated", kind) for answer in ANSWERS
            }  # fmt: skip
            reports = _played(sides, requests)
            for answer in ANSWERS:
                ratios = [
                    measure(reports[f"aggregated {answer}"], metric) / measure(reports[f"{kind} {answer}"], metric)
                    for metric in ("ttft_mean", "e2e_mean")
                ]
                cells[str(images), f"{answer} tokens"] = "{:.2f} / {:.2f}".format(*ratios)
        yield ""
        yield f"{kind.capitalize()}:"
        yield ""
        yield from _table("pictures", cells)


def _with(side: Side, **fields: Any) -> Side:
    return side.model_copy(update={"workload": {**side.workload, "words": 1000, **fields}, "requests": 20})


def _played(sides: Mapping[str, Side], requests: int | None) -> dict[str, Report]:
    scenario = Scenario(name="ablation", title="", source="", sides=sides, rows=())
    return Played(scenario, requests=requests).reports


def _table(corner: str, cells: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Rows and columns in the order in which they come."""
    rows: Sequence[str] = list(dict.fromkeys(row for row, _ in cells))
    columns = list(dict.fromkeys(column for _, column in cells))
    yield f"| {corner} | {' | '.join(columns)} |"
    yield "|---" * (len(columns) + 1) + "|"
    for row in rows:
        yield f"| {row} | {' | '.join(cells[row, column] for column in columns)} |"


if __name__ == "__main__":
    main()
