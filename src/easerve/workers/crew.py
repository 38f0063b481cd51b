"""The threads of a worker: one for all its stages, or two where prefill runs beside encode; one more to load media.

The first loads the engines and tells that the worker is ready; then each runs its loop.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from queue import SimpleQueue
from typing import TYPE_CHECKING

import psutil
import zmq

from easerve.errors import EAServeError
from easerve.heap import settle
from easerve.workers.connection import connect
from easerve.workers.messages import GaveUp, Heartbeat, Message, Progress, Ready, Stop, ToWorker, pack
from easerve.workers.spec import WorkerSpec
from easerve.workers.stage import Loop, Send

if TYPE_CHECKING:
    from easerve.workers.assembly import Reporter

END_SECONDS = 2.0  # for the piece of work that a loop is at

logger = logging.getLogger(__name__)


class Crew:
    """Used by the main thread."""

    def __init__(self, spec: WorkerSpec, identity: str, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._spec = spec
        self._identity = identity
        self._context = context
        self._loops: Sequence[Loop] = ()
        self._reporters: Sequence[Reporter] = ()
        self._failed = False
        self._threads = [threading.Thread(target=self._run, args=(self._load,), name="stage", daemon=True)]

    def start(self) -> None:
        self._threads[0].start()

    @property
    def alive(self) -> bool:
        return all(thread.is_alive() for thread in self._threads)

    @property
    def loaded(self) -> bool:
        return bool(self._loops)

    def hand_in(self, message: ToWorker) -> None:
        """Give a message to the loop that takes its kind; a Stop to all."""
        for loop in self._loops:
            if isinstance(message, Stop) or type(message) in loop.kinds:
                loop.put(message)

    def heartbeat(self, beat: Heartbeat) -> Heartbeat:
        for loop in self._loops:
            for desk in loop.desks:
                beat = desk.report(beat)
        for reporter in self._reporters:
            beat = reporter.report(beat)
        return beat

    def end(self) -> int:
        """Stop all loops, of which one may have died, and wait for them (not for a load under way); the exit code."""
        self.hand_in(Stop())
        for thread in self._threads if self.loaded else ():
            thread.join(END_SECONDS)
        return int(self._failed)

    def _run(self, prepare: Callable[[Send], Loop]) -> None:
        """A thread, from its connection to the end of its loop."""
        socket = connect(self._context, self._spec.endpoint, f"{self._identity}/{threading.current_thread().name}")

        def send(message: Message) -> None:
            socket.send(pack(message))

        try:
            prepare(send).run()
        except EAServeError as error:
            self._fail(send, error.message)
        except Exception as error:
            logger.exception("worker %s failed", self._spec.name)
            self._fail(send, f"{type(error).__name__}: {error}")
        finally:
            socket.close()

    def _fail(self, send: Send, reason: str) -> None:
        self._failed = True
        send(GaveUp(reason))

    def _load(self, send: Send) -> Loop:
        started = time.monotonic()
        send(Progress("importing torch"))
        from easerve.workers.assembly import assemble

        made = assemble(self._spec, self._identity, lambda text: send(Progress(text)))
        self._reporters = made.reporters
        (_, own), *others = made.loops.items()
        self._loops = [own(send), *(self._beside(name, make) for name, make in others)]
        settle()
        send(
            Ready(
                pid=os.getpid(),
                load_seconds=time.monotonic() - started,
                resident_bytes=psutil.Process().memory_info().rss,
                max_tokens_per_sequence=made.max_tokens_per_sequence,
            )
        )
        return self._loops[0]

    def _beside(self, name: str, make: Callable[[Send], Loop]) -> Loop:
        """A loop in a thread of its own, with a connection of its own."""
        made: SimpleQueue[Loop] = SimpleQueue()

        def prepare(send: Send) -> Loop:
            loop = make(send)
            made.put(loop)
            return loop

        thread = threading.Thread(target=self._run, args=(prepare,), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)  # only now: one that has not begun looks like one that has ended
        return made.get()
