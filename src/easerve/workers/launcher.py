"""Starts one worker process on this host, keeps the end of what it says, and ends it."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from collections import deque

from easerve.workers.spec import WorkerSpec, cuda_environment

logger = logging.getLogger(__name__)

KEPT_LINES = 30


class LocalProcess:
    """A running worker process."""

    def __init__(self, spec: WorkerSpec, process: asyncio.subprocess.Process) -> None:
        self._spec = spec
        self._process = process
        self._tail: deque[str] = deque(maxlen=KEPT_LINES)
        self._reader = asyncio.get_running_loop().create_task(self._read(), name=f"output of {spec.name}")

    @classmethod
    async def start(cls, spec: WorkerSpec, identity: str) -> LocalProcess:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "easerve.workers.process",
            spec.to_json(),
            identity,
            stdin=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.STDOUT,
            stdout=asyncio.subprocess.PIPE,
            env=_environment(spec),
        )
        return cls(spec, process)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def last_words(self) -> str:
        """The last line it printed, or nothing."""
        return self._tail[-1] if self._tail else ""

    async def wait(self) -> int:
        """Its exit code, once it has ended."""
        code = await self._process.wait()
        await asyncio.wait([self._reader], timeout=1.0)
        return code

    def kill(self) -> None:
        """SIGKILL, which also ends a process that is stopped."""
        if self._process.returncode is None:
            self._process.kill()

    async def end(self, patience: float) -> None:
        """Give it `patience` seconds to end by itself, then kill it."""
        try:
            await asyncio.wait_for(self._process.wait(), patience)
        except TimeoutError:
            self.kill()
            await self._process.wait()
        self._reader.cancel()
        await asyncio.gather(self._reader, return_exceptions=True)

    async def _read(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            text = line.decode(errors="replace").rstrip()
            if text:
                self._tail.append(text)
                logger.info("[%s] %s", self._spec.name, text)


def _environment(spec: WorkerSpec) -> dict[str, str]:
    """The parent's, with the thread counts of numeric libraries set to the worker's cores, or with its GPU alone."""
    threads = str(len(spec.device.indices) if spec.device.kind == "cpu" else 1)
    return {
        **os.environ,
        **cuda_environment(spec.device),
        "OMP_NUM_THREADS": threads,
        "MKL_NUM_THREADS": threads,
        "TOKENIZERS_PARALLELISM": "false",
        "TRANSFORMERS_VERBOSITY": "error",
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "PYTHONUNBUFFERED": "1",
    }
