"""Who is computed after a step that raised. vLLM has no answer to that but to end; here everybody who was in the step
computes a token alone, and whoever raises alone is the cause. Derived here."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from easerve.engine.vllm.progress import Progress


class Quarantine:
    """Holds sequences that vLLM does not have at the time. Pure bookkeeping."""

    def __init__(self) -> None:
        self.tried: Progress | None = None  # the only one that vLLM has now
        self._suspects: deque[Progress] = deque()
        self._waiting: list[Progress] = []  # passed, or came meanwhile

    def __len__(self) -> int:
        """Sequences outside of vLLM."""
        return len(self._suspects) + len(self._waiting)

    @property
    def active(self) -> bool:
        return self.tried is not None or len(self) > 0

    def suspect(self, several: Iterable[Progress]) -> None:
        self._suspects.extend(several)
        self.tried = None

    def wait(self, progress: Progress) -> None:
        """Until no suspect is left."""
        self._waiting.append(progress)

    def forget(self, progress: Progress) -> None:
        if progress is self.tried:
            self.tried = None
        for held in (self._suspects, self._waiting):
            if progress in held:
                held.remove(progress)

    def next(self) -> list[Progress]:
        """Who goes to vLLM now: nobody while one is tried, then the next suspect, then everybody."""
        if self.tried is not None:
            return []
        if self._suspects:
            self.tried = self._suspects.popleft()
            return [self.tried]
        released, self._waiting = self._waiting, []
        return released
