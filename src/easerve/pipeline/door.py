"""The door: a place for every request in flight, taken before anything is fetched for it."""

from __future__ import annotations

from easerve.errors import Overloaded
from easerve.policy.admission import Admission


class Place:
    """One request's place among those in flight, from its making until `leave`, which may be called again.

    Raises Overloaded when all places are taken.
    """

    def __init__(self, admission: Admission) -> None:
        if not admission.try_enter():
            raise Overloaded(
                f"{admission.limit} requests are in flight, the most this server takes; retry later", retry_after=1
            )
        self._admission: Admission | None = admission

    def leave(self) -> None:
        if self._admission is not None:
            self._admission.leave()
            self._admission = None
