"""The workers of a generating stage, and what each has to do."""

from __future__ import annotations

from dataclasses import dataclass, field

from easerve.errors import Unavailable
from easerve.pipeline.roster import Roster
from easerve.pipeline.stages import GenerateStage, SequenceJob, Sink
from easerve.policy.answers import AnswerLength
from easerve.policy.beginnings import Beginnings
from easerve.policy.placement import Load, Placement
from easerve.policy.prefix import BlockKeys
from easerve.policy.rates import TokenRate
from easerve.request import PrefillTimes, TokenOutput


@dataclass
class _Member:
    stage: GenerateStage
    seen: Beginnings
    pending_tokens: int = 0
    rate: TokenRate = field(default_factory=TokenRate)

    @property
    def load(self) -> Load:
        return Load(self.pending_tokens, self.rate.tokens_per_second)

    def load_before(self, prompt: BlockKeys | None) -> Load:
        """What its prefix cache may have of the prompt counts as work that is done."""
        known = 0 if prompt is None else self.seen.known_tokens(prompt)
        return Load(self.pending_tokens - known, self.rate.tokens_per_second)


class Assignment:
    """A sequence on its worker, where it weighs the tokens it has to prefill until its first is out, and those it may
    still bring until it ends. Either `end` or `cancel` is called, once."""

    def __init__(self, member: _Member, job: SequenceJob, answers: AnswerLength, known_tokens: int) -> None:
        """`known_tokens` of the prompt need no prefill, as far as is known here."""
        self._member = member
        self._job = job
        self._answers = answers
        self._weight = 0
        self._last_token: float | None = None
        self._weigh(job.tokens - known_tokens + self._to_come(len(job.produced)))

    def token(self, output: TokenOutput, produced: int, now: float) -> None:
        """The `produced`-th of its answer came at loop time `now`. Workers of the pool are compared by what they are
        there for: how fast they prefill, or where they take KV over, how fast one sequence gets its tokens."""
        self._weigh(self._to_come(produced))
        if self._job.kv is None and output.times is not None:
            self._prefilled(output.times)
        if self._job.kv is not None and self._last_token is not None:
            self._member.rate.observe(1, now - self._last_token)
        self._last_token = now
        if output.finish_reason is not None:
            self._answers.observe(produced)

    def end(self) -> None:
        """The sequence has ended here by itself."""
        self._weigh(0)

    def cancel(self) -> None:
        """End it here, and tell the worker."""
        self._weigh(0)
        self._member.stage.cancel(self._job.sequence_id)

    def _prefilled(self, times: PrefillTimes) -> None:
        """Where the prefix cache had most of it, the time is that of a step rather than of its tokens."""
        computed = self._job.tokens - times.cached
        if computed >= times.cached:
            self._member.rate.observe(computed, times.prefill)

    def _to_come(self, produced: int) -> int:
        return 0 if self._job.hand_over else self._answers.expect(self._job.sampling.max_tokens - produced)

    def _weigh(self, tokens: int) -> None:
        self._member.pending_tokens += tokens - self._weight
        self._weight = tokens


class Pool:
    """All workers that serve one stage: "prefill", "local prefill" or "decode"."""

    def __init__(self, stage: str, placement: Placement, remembered: int = 0) -> None:
        """`remembered` blocks of what each worker was given to prefill, for prefix caches; 0 if there are none."""
        self.stage = stage
        self._remembered = remembered
        self.answers = AnswerLength()
        self._placement = placement
        self._roster: Roster[_Member] = Roster()

    def add_worker(self, stage: GenerateStage) -> None:
        self._roster.add(stage.name, _Member(stage, Beginnings(self._remembered)))

    def remove_worker(self, name: str, *, returns: bool) -> None:
        """Forget a worker. Work that finds no other waits for one that `returns`."""
        self._roster.remove(name, returns=returns)

    @property
    def attended(self) -> bool:
        """Whether a worker is there now."""
        return bool(self._roster.members)

    @property
    def staffed(self) -> bool:
        """Whether a worker is there or on its way back."""
        return self._roster.staffed

    def loads(self) -> dict[str, Load]:
        return {name: member.load for name, member in self._roster.members.items()}

    def check(self) -> None:
        """Raises Unavailable when no worker is there or expected."""
        if not self.staffed:
            raise self._none()

    async def choose(self, tokens: float, preferred: str = "", prompt: BlockKeys | None = None) -> GenerateStage:
        """The worker for `tokens` more: the preferred one if it is there, else as placement says, to which work that is
        done already with the `prompt` to prefill is none.

        Waits while workers are only expected; raises Unavailable when none is.
        """
        members = await self._roster.some(self._none())
        if preferred not in members:
            loads = {name: member.load_before(prompt) for name, member in members.items()}
            preferred = self._placement.choose(loads, tokens)
        return members[preferred].stage

    def start(self, stage: GenerateStage, job: SequenceJob, sink: Sink, prompt: BlockKeys | None = None) -> Assignment:
        """Hand a sequence to a chosen worker, which prefills `prompt`."""
        member = self._roster.members[stage.name]
        known = 0
        if prompt is not None:
            known = member.seen.known_tokens(prompt)
            member.seen.add(prompt)
        assignment = Assignment(member, job, self.answers, known)
        stage.start(job, sink)
        return assignment

    def _none(self) -> Unavailable:
        return Unavailable(f"no {self.stage} worker is alive", retry_after=5)
