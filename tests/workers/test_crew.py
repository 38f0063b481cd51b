"""A worker of several threads ends as a whole when one of them dies, and says why."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
import zmq

from easerve.engine.torch.options import EngineOptions
from easerve.workers.crew import Crew
from easerve.workers.messages import GaveUp, unpack_at_front_end
from easerve.workers.spec import Device, WorkerSpec
from easerve.workers.stage import Send, StageLoop


class Idle(StageLoop):
    """Waits for a message that never comes."""

    def __init__(self) -> None:
        super().__init__([])


class Dying(StageLoop):
    """Has an error that nobody answers for."""

    def __init__(self) -> None:
        super().__init__([])

    def run(self) -> None:
        raise RuntimeError("out of luck")


@pytest.mark.parametrize("dying", ["first", "beside"])
def test_one_dead_thread_ends_the_worker(dying: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = zmq.Context()
    front_end = context.socket(zmq.ROUTER)
    endpoint = f"ipc://{tmp_path}/workers.sock"
    front_end.bind(endpoint)
    spec = WorkerSpec(
        name="encode-0",
        stages=("encode", "prefill"),
        device=Device("cpu", (0,)),
        model="",
        endpoint=endpoint,
        run_folder=str(tmp_path),
        dtype="auto",
        engine=EngineOptions(),
        media=None,
    )

    def load(crew: Crew, send: Send) -> StageLoop:
        first, beside = (Dying(), Idle()) if dying == "first" else (Idle(), Dying())
        crew._loops = [first, crew._beside("prefill", lambda _: beside)]
        return first

    monkeypatch.setattr(Crew, "_load", load)
    crew = Crew(spec, "encode-0.0", context)
    crew.start()
    deadline = time.monotonic() + 5
    while crew.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not crew.alive
    assert crew.end() == 1
    assert not [thread for thread in threading.enumerate() if thread.name in ("stage", "prefill")]
    message = unpack_at_front_end(front_end.recv_multipart()[1])
    assert message == GaveUp("RuntimeError: out of luck")
    context.destroy(linger=0)
