"""The worker process: one thread listens, one computes.

Run as `python -m easerve.workers.process SPEC`, SPEC being a `WorkerSpec` as JSON. The main thread takes messages in
and sends heartbeats, also while the stage computes, and not when the process itself is stopped. The stage thread sends
its answers itself: a token crosses no other thread.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING

import msgspec
import psutil
import zmq

from easerve.errors import EAServeError
from easerve.transfer.shm import SharedMemory
from easerve.workers.messages import (
    Message,
    Progress,
    Ready,
    StartFailed,
    Stop,
    ToWorker,
    pack,
    unpack_at_worker,
)
from easerve.workers.spec import WorkerSpec, usable_cores

if TYPE_CHECKING:
    from easerve.workers.stage import StageLoop

Send = Callable[[Message], None]

HEARTBEAT_SECONDS = 1.0
LOOK_SECONDS = 0.2  # how soon the end of the stage thread is noticed

logger = logging.getLogger(__name__)


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the front end stops its workers
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    spec = msgspec.json.decode(sys.argv[1], type=WorkerSpec)
    if spec.device.kind == "cpu":
        _bind(spec)
    context = zmq.Context()
    try:
        return _serve(spec, context)
    finally:
        context.destroy(linger=500)


def _connect(spec: WorkerSpec, context: zmq.Context[zmq.Socket[bytes]], identity: str) -> zmq.Socket[bytes]:
    socket = context.socket(zmq.DEALER)
    socket.setsockopt(zmq.IDENTITY, identity.encode())
    socket.setsockopt(zmq.LINGER, 500)
    socket.connect(spec.endpoint)
    return socket


def _bind(spec: WorkerSpec) -> None:
    """Keep the process on its cores; torch takes its thread count from the environment the launcher set."""
    cores = usable_cores()
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {cores[index] for index in spec.device.indices})


def _serve(spec: WorkerSpec, context: zmq.Context[zmq.Socket[bytes]]) -> int:
    socket = _connect(spec, context, spec.name)
    inbox: SimpleQueue[ToWorker] = SimpleQueue()
    worker = _Worker(spec, context, inbox)
    thread = threading.Thread(target=worker.run, name="stage", daemon=True)
    thread.start()
    parent, beat_at = os.getppid(), time.monotonic() + HEARTBEAT_SECONDS
    while thread.is_alive():
        if socket.poll(int(LOOK_SECONDS * 1000)):
            message = unpack_at_worker(socket.recv())
            inbox.put(message)
            if isinstance(message, Stop):
                break
        if time.monotonic() >= beat_at:
            beat_at = time.monotonic() + HEARTBEAT_SECONDS
            if (beat := worker.heartbeat()) is not None:
                socket.send(pack(beat))
            if os.getppid() != parent:
                logger.warning("the front end is gone; worker %s stops", spec.name)
                return 1
    thread.join()
    return worker.exit_code


class _Worker:
    """The stage thread: loads, then runs the stage loop."""

    def __init__(self, spec: WorkerSpec, context: zmq.Context[zmq.Socket[bytes]], inbox: SimpleQueue[ToWorker]) -> None:
        self._spec = spec
        self._context = context
        self._inbox = inbox
        self._process = psutil.Process()
        self._loop: StageLoop | None = None
        self.exit_code = 0

    def run(self) -> None:
        socket = _connect(self._spec, self._context, f"{self._spec.name}/stage")

        def send(message: Message) -> None:
            socket.send(pack(message))

        try:
            self._loop = self._load(send)
            self._loop.run()
        except EAServeError as error:
            self._fail(send, error.message)
        except Exception as error:
            logger.exception("worker %s failed", self._spec.name)
            self._fail(send, f"{type(error).__name__}: {error}")
        finally:
            socket.close()

    def _fail(self, send: Send, reason: str) -> None:
        self.exit_code = 1
        send(StartFailed(reason))

    def heartbeat(self) -> Message | None:
        return None if self._loop is None else self._loop.heartbeat(self._process.memory_info().rss)

    def _load(self, send: Send) -> StageLoop:
        started = time.monotonic()
        send(Progress("importing torch"))
        from easerve.workers.loading import load_stages

        stages = load_stages(self._spec, lambda text: send(Progress(text)))
        transfer = SharedMemory(Path(self._spec.run_folder), f"{self._spec.name}-{os.getpid()}")
        loop = stages.loop(self._inbox, send, transfer)
        send(
            Ready(
                pid=os.getpid(),
                stages=list(self._spec.stages),
                load_seconds=time.monotonic() - started,
                resident_bytes=self._process.memory_info().rss,
                max_tokens_per_sequence=stages.max_tokens_per_sequence,
            )
        )
        return loop


if __name__ == "__main__":
    sys.exit(main())
