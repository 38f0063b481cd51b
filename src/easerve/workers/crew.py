"""The threads of a worker: one for all its stages, or two where prefill runs beside encode; one more to load media.

The first loads the engines and tells that the worker is ready; then each runs its loop.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import zmq

from easerve.errors import EAServeError
from easerve.transfer.arrays import ArrayStore
from easerve.transfer.choose import make_transfer
from easerve.workers.connection import connect
from easerve.workers.messages import GaveUp, Heartbeat, Message, Progress, Ready, Stop, ToWorker, pack
from easerve.workers.spec import WorkerSpec
from easerve.workers.stage import Desk, Loop, Send, StageLoop

if TYPE_CHECKING:
    from easerve.workers.sharing import SharedDevice
    from easerve.workers.shelf import Shelf

AT_HAND_BYTES = 256 * 2**20  # of embeddings that local prefill finds without a transfer
END_SECONDS = 2.0  # for the piece of work that a loop is at

logger = logging.getLogger(__name__)


class Crew:
    """Used by the main thread."""

    def __init__(self, spec: WorkerSpec, identity: str, context: zmq.Context[zmq.Socket[bytes]]) -> None:
        self._spec = spec
        self._identity = identity
        self._context = context
        self._loops: Sequence[Loop] = ()
        self._shelf: Shelf | None = None
        self._shared: SharedDevice | None = None
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
        for part in (self._shelf, self._shared):
            beat = beat if part is None else part.report(beat)
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
        from easerve.workers.encoding import EncodeDesk
        from easerve.workers.generating import GenerateDesk
        from easerve.workers.loading import load_engines
        from easerve.workers.media import MediaLoop
        from easerve.workers.sharing import share_device
        from easerve.workers.shelf import Shelf

        spec = self._spec

        def progress(text: str) -> None:
            send(Progress(text))

        engines = load_engines(spec, progress)
        if spec.coresident:
            self._shared = share_device(spec, engines, progress)
            engines = self._shared.engines
        transfer = make_transfer(spec.transfer, Path(spec.run_folder), self._identity)
        shelf = Shelf(transfer, spec.device.torch_name, AT_HAND_BYTES if spec.coresident else 0)
        encode: list[Desk] = []
        if engines.encoder is not None:
            encode.append(EncodeDesk(engines.encoder, ArrayStore(transfer), shelf, send))

        def generate(own_send: Send) -> list[Desk]:
            return [GenerateDesk(engines.language_model, shelf, own_send)] if engines.language_model else []

        self._shelf = shelf
        loops: list[Loop]
        if spec.coresident:
            loops = [StageLoop(encode), self._beside("prefill", lambda own_send: StageLoop(generate(own_send)))]
        else:
            loops = [StageLoop([*encode, *generate(send)])]
        if (media := spec.media) is not None:
            loops.append(self._beside("media", lambda own_send: MediaLoop(media, ArrayStore(transfer), own_send)))
        self._loops = loops
        send(
            Ready(
                pid=os.getpid(),
                stages=list(spec.stages),
                load_seconds=time.monotonic() - started,
                resident_bytes=psutil.Process().memory_info().rss,
                max_tokens_per_sequence=engines.max_tokens_per_sequence,
            )
        )
        return self._loops[0]

    def _beside(self, name: str, make: Callable[[Send], Loop]) -> Loop:
        """A loop in a thread of its own, with a connection of its own."""
        made: list[Loop] = []
        there = threading.Event()

        def prepare(send: Send) -> Loop:
            made.append(make(send))
            there.set()
            return made[0]

        thread = threading.Thread(target=self._run, args=(prepare,), name=name, daemon=True)
        thread.start()
        self._threads.append(thread)  # only now: one that has not begun looks like one that has ended
        there.wait()
        return made[0]
