"""The worker process: one thread listens, others compute (and one may load media).

Run as `python -m easerve.workers.process SPEC IDENTITY`, SPEC being a `WorkerSpec` as JSON. The main thread takes
messages in and sends heartbeats, also while the stages compute, and not when the process itself is stopped. A stage
thread sends its answers itself: a token crosses no other thread.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import time
from contextlib import suppress

import psutil
import zmq

from easerve.workers.connection import connect
from easerve.workers.crew import Crew
from easerve.workers.messages import Heartbeat, Stop, pack, unpack_at_worker
from easerve.workers.spec import WorkerSpec, bind_to_cores

HEARTBEAT_SECONDS = 0.5
LOOK_SECONDS = 0.2  # how soon the end of a stage thread is noticed

logger = logging.getLogger(__name__)


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM):  # they reach the whole group; the front end stops its workers
        signal.signal(number, signal.SIG_IGN)
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    spec, identity = WorkerSpec.from_json(sys.argv[1]), sys.argv[2]
    if spec.device.kind == "cpu":
        bind_to_cores(spec.device)  # torch takes its thread count from the environment the launcher set
    context = zmq.Context()
    try:
        return _serve(spec, identity, context)
    finally:
        context.destroy(linger=500)


def _serve(spec: WorkerSpec, identity: str, context: zmq.Context[zmq.Socket[bytes]]) -> int:
    socket = connect(context, spec.endpoint, identity)
    process, parent = psutil.Process(), os.getppid()
    crew = Crew(spec, identity, context)
    crew.start()
    beat_at = time.monotonic() + HEARTBEAT_SECONDS
    while crew.alive:
        if socket.poll(int(LOOK_SECONDS * 1000)):
            message = unpack_at_worker(socket.recv())
            if isinstance(message, Stop):
                break
            crew.hand_in(message)
        if time.monotonic() >= beat_at:
            beat_at = time.monotonic() + HEARTBEAT_SECONDS
            with suppress(zmq.Again):  # a front end that has been stopped for long reads nothing; its end must be seen
                socket.send(pack(crew.heartbeat(Heartbeat(process.memory_info().rss))), zmq.NOBLOCK)
            if os.getppid() != parent:
                logger.warning("the front end is gone; worker %s stops", spec.name)
                return 1
    return crew.end()


if __name__ == "__main__":
    sys.exit(main())
