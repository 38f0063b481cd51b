"""A run in numbers: of all requests, and of each modality and of text alone apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from easerve.bench.distribution import Distribution
from easerve.bench.objectives import EVERY, ByModality, met
from easerve.bench.record import Record


@dataclass(frozen=True)
class Good:
    """Requests within objectives: per second of the run (goodput), and as a share of all, errors included."""

    goodput: float
    share: float


@dataclass(frozen=True)
class Summary:
    """Rates are per second of the run, latencies of answered requests, in seconds.

    `itl` is between chunks that bear a token; `chunk_gap` counts opening and closing chunks too, as vLLM's bench does.
    """

    requests: int
    completed: int
    errors: Mapping[str, int]  # by kind
    seconds: float
    request_throughput: float
    output_throughput: float  # tokens
    prompt_tokens: int
    output_tokens: int
    ttft: Distribution | None
    tpot: Distribution | None
    itl: Distribution | None
    chunk_gap: Distribution | None
    e2e: Distribution | None
    good: Good | None  # within the given objectives
    tiers: Sequence[Good]  # tightest first


def summarise(
    records: Sequence[Record], seconds: float, objectives: ByModality | None, tiers: Sequence[ByModality]
) -> Summary:
    """`seconds` is the length of the run, from its start to its last request's end."""
    answered = [record for record in records if record.error is None]
    span = seconds or float("inf")
    output_tokens = sum(record.output_tokens for record in answered)
    return Summary(
        requests=len(records),
        completed=len(answered),
        errors=dict(Counter(record.error for record in records if record.error is not None)),
        seconds=seconds,
        request_throughput=len(answered) / span,
        output_throughput=output_tokens / span,
        prompt_tokens=sum(record.prompt_tokens or 0 for record in answered),
        output_tokens=output_tokens,
        ttft=Distribution.of([record.ttft for record in answered]),
        tpot=Distribution.of([record.tpot for record in answered if record.tpot is not None]),
        itl=Distribution.of([gap for record in answered for gap in record.itl]),
        chunk_gap=Distribution.of([gap for record in answered for gap in record.chunk_gaps]),
        e2e=Distribution.of([record.e2e for record in answered]),
        good=None if objectives is None else good(records, span, objectives),
        tiers=[good(records, span, tier) for tier in tiers],
    )


def good(records: Sequence[Record], span: float, objectives: ByModality) -> Good:
    number = sum(met(objectives, record) for record in records)
    return Good(number / span, number / len(records) if records else 0.0)


def by_modality(
    records: Sequence[Record], seconds: float, objectives: ByModality | None, tiers: Sequence[ByModality]
) -> dict[str, Summary]:
    """All requests first; the modalities after it, where there is more than one."""
    names = sorted({record.modality for record in records})
    groups = {EVERY: records}
    if len(names) > 1:
        groups |= {name: [record for record in records if record.modality == name] for name in names}
    return {name: summarise(group, seconds, objectives, tiers) for name, group in groups.items()}
