"""Plays every published scenario in virtual time and writes reported and simulated figures beside each other.

    python benchmarks/published.py --page docs/results/published.md

Takes a few minutes on one core; nothing is measured.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from easerve.scenarios.hosted import FITTED
from easerve.scenarios.library import find_scenario, scenarios
from easerve.scenarios.play import Order, Outcome, Played

CONSTANTS = f"""\
Three constants stand for what a server adds to its kernels, the same in every scenario: a step or an encode batch
takes {FITTED.slowdown:g} times as long as its kernels do alone; the host takes {1000 * FITTED.step:g} ms before each
step; an item costs {1e6 * FITTED.patch:g} us of preprocessing per patch, for which encode waits. They were chosen by
the rows marked *fitted*; all other rows are held out from that choice, and from that alone.

What the sources do not say is listed under each scenario, the same for all rows of a source. Those assumptions were
made knowing the figures, and some were changed after a first comparison: dynamo and vllm with prefill and decode
together rather than apart or aggregated; 40 frames a video rather than 32; the allocation of easerve on A100 and its s;
one picture a forward for the post's deployments and EPDServe's; the objectives of dynamo-epd's goodput. A held-out row
that agrees is therefore no blind prediction."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--page", type=Path, help="file to write (default: print)")
    parser.add_argument("--scenario", action="append", help="one of them; may be repeated (default: all)")
    parser.add_argument("--requests", type=int, help="of each run, for a quick look")
    arguments = parser.parse_args()
    played = []
    for name in arguments.scenario or scenarios():
        print(name, file=sys.stderr, flush=True)
        played.append(Played(find_scenario(name), requests=arguments.requests))
        _ = played[-1].outcomes
    text = "\n".join(page(played)) + "\n"
    if arguments.page is None:
        print(text)
    else:
        arguments.page.write_text(text, encoding="utf-8")


def page(played: list[Played]) -> Iterator[str]:
    """Markdown, line by line."""
    yield "# Published figures, simulated"
    yield ""
    yield "Written by `python benchmarks/published.py --page docs/results/published.md`. **Reported** figures are of"
    yield "the sources named, **simulated** ones from virtual time over the cost model of [costs](../costs.md)."
    yield "Nothing on this page was measured here."
    yield ""
    yield from _summary(played)
    yield ""
    yield CONSTANTS
    yield ""
    yield "A ratio of changes compares what is left after them. Within 1 %, two figures count as equal."
    for one in played:
        yield from _section(one)


def _summary(played: list[Played]) -> Iterator[str]:
    """Where the source puts two figures in order, it is a pair."""
    yield "| scenario | held-out figures within 25 % | limits met | pairs ordered as reported | equal | reversed |"
    yield "|---|---|---|---|---|---|"
    for one in played:
        yield _summary_line(one.scenario.name, one.outcomes, one.orders)
    every = [outcome for one in played for outcome in one.outcomes]
    yield _summary_line("**all**", every, [order for one in played for order in one.orders])


def _summary_line(name: str, outcomes: list[Outcome], orders: list[Order]) -> str:
    held = [outcome for outcome in outcomes if outcome.held_out]
    figures = [outcome.near for outcome in held if outcome.row.bound is None]
    limits = [outcome.near for outcome in held if outcome.row.bound is not None]
    verdicts = Counter(order.verdict for order in orders)
    pairs = [f"{verdicts['as reported']} of {len(orders)}" if orders else "", verdicts["equal"], verdicts["reversed"]]
    shares = [f"{sum(one)} of {len(one)}" if one else "" for one in (figures, limits)]
    return f"| {name} | {' | '.join(map(str, [*shares, *pairs]))} |"


def _section(played: Played) -> Iterator[str]:
    scenario = played.scenario
    yield ""
    yield f"## {scenario.name}: {scenario.title}"
    yield ""
    yield f"Source: {scenario.source}. Assumed, since it does not say:"
    yield ""
    for assumption in scenario.assumed:
        yield f"- {' '.join(assumption.split())}"
    yield ""
    yield "| | reported | simulated | simulated / reported | |"
    yield "|---|---|---|---|---|"
    yield from map(_line, played.outcomes)
    yield ""
    for order in played.orders:
        verdict = order.verdict if order.verdict == "as reported" else f"**{order.verdict}**"
        yield f"- {order.better}, before {order.worse}: {verdict}"
    for remark in scenario.remarks:
        yield f"- {' '.join(remark.split())}"


def _line(outcome: Outcome) -> str:
    row = outcome.row
    use = "held out" if outcome.held_out else "fitted"
    if row.bound is not None:
        return f"| {row.name} | {row.bound} {row.reported:.3g} | {outcome.simulated:.3g} | | {_verdict(outcome)} |"
    mark = use if outcome.near else f"**{use}, off**"
    return f"| {row.name} | {row.reported:.3g} | {outcome.simulated:.3g} | {outcome.ratio:.2f} | {mark} |"


def _verdict(outcome: Outcome) -> str:
    return "held out, within" if outcome.near else "**held out, not within**"


if __name__ == "__main__":
    main()
