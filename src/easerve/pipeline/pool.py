"""The workers of a generating stage, and what each has to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from easerve.errors import Unavailable
from easerve.pipeline.roster import Roster
from easerve.pipeline.stages import GenerateStage, SequenceJob, Sink
from easerve.policy.placement import Load, Placement
from easerve.policy.rates import TokenRate


@dataclass
class _Member:
    stage: GenerateStage
    pending_tokens: float = 0.0
    rate: TokenRate = field(default_factory=TokenRate)


class Assignment:
    """A sequence on its worker. It weighs on the worker until `lighten`; `end` is called exactly once."""

    def __init__(self, member: _Member, job: SequenceJob, weight: float) -> None:
        self._member = member
        self._job_id = job.sequence_id
        self._weight = weight
        member.pending_tokens += weight

    def lighten(self) -> None:
        """It no longer counts as pending: its first token is out."""
        self._member.pending_tokens -= self._weight
        self._weight = 0.0

    def observe(self, tokens: int, seconds: float) -> None:
        """So many tokens were prefilled in so many seconds."""
        self._member.rate.observe(tokens, seconds)

    def end(self, *, cancel: bool) -> None:
        """The sequence is over here; `cancel` tells the worker, when it has not ended by itself."""
        self.lighten()
        if cancel:
            self._member.stage.cancel(self._job_id)


class Pool:
    """All workers that serve one stage: "prefill", "local prefill" or "decode"."""

    def __init__(self, stage: str, placement: Placement) -> None:
        self.stage = stage
        self._placement = placement
        self._roster: Roster[_Member] = Roster()

    def add_worker(self, stage: GenerateStage) -> None:
        self._roster.add(stage.name, _Member(stage))

    def remove_worker(self, name: str, *, returns: bool) -> None:
        """Forget a worker. Work that finds no other waits for one that `returns`."""
        self._roster.remove(name, returns=returns)

    @property
    def staffed(self) -> bool:
        """Whether a worker is there or on its way back."""
        return self._roster.staffed

    def loads(self) -> dict[str, Load]:
        members = self._roster.members
        return {name: Load(member.pending_tokens, member.rate.tokens_per_second) for name, member in members.items()}

    def check(self) -> None:
        """Raises Unavailable when no worker is there or expected."""
        if not self.staffed:
            raise self._none()

    async def choose(self, tokens: float, preferred: str = "") -> GenerateStage:
        """The worker for `tokens` more: the preferred one if it is there, else as placement says.

        Waits while workers are only expected; raises Unavailable when none is.
        """
        members = await self._roster.some(self._none())
        name = preferred if preferred in members else self._placement.choose(self.loads(), tokens)
        return members[name].stage

    def start(self, stage: GenerateStage, job: SequenceJob, sink: Sink, weight: float) -> Assignment:
        """Hand a sequence to a chosen worker, on which it weighs `weight` tokens."""
        assignment = Assignment(self._roster.members[stage.name], job, weight)
        stage.start(job, sink)
        return assignment

    def _none(self) -> Unavailable:
        return Unavailable(f"no {self.stage} worker is alive", retry_after=5)
