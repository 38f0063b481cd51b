"""The workers of the encode pool: what each is busy with, and which of them takes the next batch."""

from __future__ import annotations

from dataclasses import dataclass, field

from easerve.pipeline.roster import Roster
from easerve.pipeline.stages import EncodeStage
from easerve.policy.placement import Load, Placement, sooner_elsewhere
from easerve.policy.rates import TokenRate


@dataclass(eq=False)
class EncodeMember:
    """A worker, which takes one batch at a time."""

    stage: EncodeStage
    running_tokens: int = 0  # 0: idle
    rate: TokenRate = field(default_factory=TokenRate)

    @property
    def load(self) -> Load:
        return Load(self.running_tokens, self.rate.tokens_per_second)


class EncodeRoster(Roster[EncodeMember]):
    """The longest idle first."""

    def __init__(self, placement: Placement) -> None:
        super().__init__()
        self._placement = placement

    def loads(self) -> dict[str, Load]:
        return {name: member.load for name, member in self.members.items()}

    def next(self, tokens: int) -> EncodeMember | None:
        """An idle worker for a batch of `tokens`, or None if there is none, or if a busy one would be through with the
        batch sooner."""
        idle = {name: member.load for name, member in self.members.items() if not member.running_tokens}
        if not idle:
            return None
        name = self._placement.choose(idle, tokens)
        busy = {other: member.load for other, member in self.members.items() if member.running_tokens}
        return None if sooner_elsewhere({**busy, name: idle[name]}, name, tokens) else self.members[name]

    def rest(self, member: EncodeMember) -> None:
        """Its batch has ended; it may have been lost meanwhile, and may have a successor."""
        member.running_tokens = 0
        name = member.stage.name
        if self.members.get(name) is member:
            self.members[name] = self.members.pop(name)
