"""The generate pool: chooses a prefill/decode worker for a sequence, by what each has pending."""

from __future__ import annotations

from dataclasses import dataclass

from easerve.errors import Unavailable
from easerve.pipeline.stages import GenerateStage, SequenceJob, Sink
from easerve.policy.placement import Placement


@dataclass
class _Member:
    stage: GenerateStage
    pending_tokens: int = 0  # prompt tokens of sequences that have no first token yet


class Assignment:
    """A sequence on its worker; `prefilled` and `end` keep the worker's load right."""

    def __init__(self, member: _Member, job: SequenceJob) -> None:
        self._member = member
        self._job_id = job.sequence_id
        self._tokens = len(job.prompt)
        member.pending_tokens += self._tokens

    def prefilled(self) -> None:
        """The first token is out: the prompt no longer counts as pending."""
        self._member.pending_tokens -= self._tokens
        self._tokens = 0

    def end(self, *, cancel: bool) -> None:
        """The sequence is over; `cancel` tells the worker, when it has not ended by itself."""
        self.prefilled()
        if cancel:
            self._member.stage.cancel(self._job_id)


class GeneratePool:
    """All workers that prefill and decode."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._members: dict[str, _Member] = {}

    def add_worker(self, stage: GenerateStage) -> None:
        self._members[stage.name] = _Member(stage)

    def remove_worker(self, name: str) -> None:
        self._members.pop(name, None)

    def pending_tokens(self) -> dict[str, float]:
        return {name: member.pending_tokens for name, member in self._members.items()}

    def check(self) -> None:
        """Raises Unavailable when no worker is left."""
        if not self._members:
            raise Unavailable("no prefill/decode worker is alive", retry_after=5)

    def start(self, job: SequenceJob, sink: Sink) -> Assignment:
        """Hand a sequence to a worker. Raises Unavailable when none is left."""
        self.check()
        member = self._members[self._placement.choose(self.pending_tokens())]
        assignment = Assignment(member, job)
        member.stage.start(job, sink)
        return assignment
