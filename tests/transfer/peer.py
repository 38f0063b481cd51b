"""A second process for the tests: it puts, opens and releases what it is told to, one JSON line per order."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from easerve.errors import EAServeError
from easerve.request import TensorRef
from easerve.transfer.choose import Locality, Transfers, make_transfer


def content(seed: int, nbytes: int) -> bytes:
    """Bytes that differ from place to place and from seed to seed, and are quick to make."""
    words = np.arange(-(-nbytes // 8), dtype=np.uint64)
    return (words * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)).tobytes()[:nbytes]


def digest(data: memoryview | bytes) -> str:
    return hashlib.blake2b(data, digest_size=16).hexdigest()


def _owner(pid: int) -> str:
    return f"peer-{pid}"


class Peer:
    """The other process, as the test sees it."""

    def __init__(self, kind: str, folder: Path, locality: Locality, **environment: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.transfer.peer", kind, str(folder), locality.value],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | environment,
        )

    @property
    def owner(self) -> str:
        return _owner(self._process.pid)

    def put(self, seed: int, nbytes: int) -> TensorRef:
        return msgspec.convert(self._ask("put", seed, nbytes), TensorRef)

    def open(self, ref: TensorRef) -> str:
        """The digest of what the peer sees."""
        return str(self._ask("open", msgspec.to_builtins(ref)))

    def release(self, ref: TensorRef) -> None:
        self._ask("release", msgspec.to_builtins(ref))

    def buffers(self) -> int:
        return int(self._ask("buffers"))

    def stop_after_next_answer(self) -> None:
        """Stall once the next reader has been told where its buffer lies."""
        self._ask("stop_after_next_answer")

    def stop(self) -> None:
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)  # until it has stopped

    def go_on(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def end(self) -> int:
        """Close its transfer and leave; returns the exit code."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        return self._process.wait(timeout=20)

    def _ask(self, *order: Any) -> Any:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or '"the peer has ended"')
        if not isinstance(answer, list):
            raise AssertionError(answer)
        return answer[0]


def _obey(transfer: Transfers, order: str, *details: Any) -> Any:
    match order:
        case "put":
            seed, nbytes = details
            return msgspec.to_builtins(transfer.put(memoryview(content(seed, nbytes)), (nbytes,), "uint8"))
        case "open":
            return digest(transfer.open(msgspec.convert(details[0], TensorRef)))
        case "release":
            return transfer.release(msgspec.convert(details[0], TensorRef))
        case "buffers":
            return transfer.buffers
        case "stop_after_next_answer":
            return _stop_after_next_answer()
    raise AssertionError(order)


def _stop_after_next_answer() -> None:
    from easerve.transfer import owner

    turn = owner.Owner._turn

    def then_stop(self: Any, socket: Any) -> None:
        turn(self, socket)
        os.kill(os.getpid(), signal.SIGSTOP)

    owner.Owner._turn = then_stop  # type: ignore[method-assign]


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    kind, folder, locality = sys.argv[1:]
    transfer = make_transfer(kind, Path(folder), _owner(os.getpid()), locality=Locality(locality))
    for line in sys.stdin:
        try:
            answer: Any = [_obey(transfer, *json.loads(line))]
        except EAServeError as error:
            answer = error.message
        answers.write(json.dumps(answer) + "\n")
    transfer.close()


if __name__ == "__main__":
    main()
