"""The workers of a pool: who is there, and who is expected back."""

from __future__ import annotations

import asyncio
from typing import Generic, TypeVar

from easerve.errors import Unavailable

M = TypeVar("M")


class Roster(Generic[M]):
    """Members by worker name, in the order of `members`, which may be changed."""

    def __init__(self) -> None:
        self.members: dict[str, M] = {}
        self._expected: set[str] = set()
        self._changed = asyncio.Event()

    @property
    def staffed(self) -> bool:
        """Whether a worker is there or on its way back."""
        return bool(self.members or self._expected)

    def add(self, name: str, member: M) -> None:
        self.members[name] = member
        self._expected.discard(name)
        self._wake()

    def remove(self, name: str, *, returns: bool) -> bool:
        """Forget a worker, or expect it back if it `returns`; False if it is none of this pool's."""
        if self.members.pop(name, None) is None and name not in self._expected:
            return False
        self._expected.discard(name)
        if returns:
            self._expected.add(name)
        self._wake()
        return True

    async def some(self, none: Unavailable) -> dict[str, M]:
        """The members, once there are any; raises `none` when nobody is there or expected."""
        while not self.members:
            if not self._expected:
                raise none
            await self._changed.wait()
        return self.members

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
