"""Whether tokens reached the client as they were made, or in bunches, later.

TPOT is what a client sees. If tokens wait on their way (a front end or a load generator that gets no time on its cores,
a socket that collects), the first of an answer comes with the others, and TPOT says next to nothing of the server. The
decode workers' own busy counters tell: where `tokens` tokens after first ones took them `busy` seconds, in steps that
make one token for each sequence, the mean time per token is at least busy / tokens (derived here: a token takes the
whole of its step, and shares it with others at best).
"""

from __future__ import annotations

from dataclasses import dataclass

from easerve.bench.report import Run
from easerve.bench.workers import Busy

CREDIBLE = 0.5  # of the bound; the counters tick twice a second, so that they miss some of a short run


@dataclass(frozen=True)
class TokenPace:
    """Seconds for each token after an answer's first: as clients saw it, and the least that decode can have taken."""

    seen: float
    least: float

    @classmethod
    def of(cls, run: Run) -> TokenPace:
        """Of a run on a server whose decode workers do nothing else; both are 0 where nothing was decoded."""
        later = [(one.e2e - one.ttft, one.output_tokens - 1) for one in run.observed.records if one.tpot is not None]
        tokens = sum(count for _, count in later)
        readings = run.utilisation.readings
        busy = _decoding(readings[-1][1]) - _decoding(readings[0][1]) if readings else 0.0
        return cls(sum(span for span, _ in later) / tokens, busy / tokens) if tokens else cls(0.0, 0.0)

    @property
    def credible(self) -> bool:
        return self.seen >= CREDIBLE * self.least

    def __str__(self) -> str:
        return f"{self.seen * 1000:.2f} ms a token at the client, where decode took {self.least * 1000:.2f} ms or more"


def _decoding(busy: Busy) -> float:
    return sum(seconds for (worker, _), seconds in busy.items() if worker.startswith("decode"))
