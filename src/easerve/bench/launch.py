"""Starts a server by its command, on given cores, and ends all its processes afterwards."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import signal
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import httpx

from easerve.errors import BadRequest, StartupError

LOOK_EVERY = 0.5  # seconds
GRACE = 20.0  # seconds from SIGTERM to SIGKILL


@asynccontextmanager
async def launched(command: str, cores: Sequence[int], log: Path, patience: float) -> AsyncIterator[str]:
    """The URL of a server whose command has `{port}` where its port belongs; output goes to `log`.

    Raises StartupError if it ends, or does not list its models within `patience` seconds.
    """
    if "{port}" not in command:
        raise BadRequest(f"{command!r} says nowhere {{port}}: write it where the server's port belongs")
    port = _free_port()
    words = shlex.split(command.replace("{port}", str(port)))
    if shutil.which(words[0]) is None:
        raise StartupError(f"{words[0]} cannot be started: there is no such program")
    words = [*_ends_with_us(), *_kept_on(cores), *words]
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        try:
            process = await asyncio.create_subprocess_exec(
                *words, stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL, start_new_session=True
            )
        except OSError as error:
            raise StartupError(f"{words[0]} cannot be started: {error.strerror}") from error
    try:
        url = f"http://127.0.0.1:{port}"
        await _until_up(url, process, log, patience)
        yield url
    finally:
        await _end(process)


def _ends_with_us() -> list[str]:
    """Before a command: the system ends it when this process is killed, which could not end it any more."""
    return ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []


def _kept_on(cores: Sequence[int]) -> list[str]:
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _until_up(url: str, process: asyncio.subprocess.Process, log: Path, patience: float) -> None:
    try:
        async with asyncio.timeout(patience), httpx.AsyncClient(base_url=url, trust_env=False) as http:
            while process.returncode is None:
                with suppress(httpx.HTTPError):
                    if (await http.get("/v1/models")).is_success:
                        return
                await asyncio.sleep(LOOK_EVERY)
    except TimeoutError:
        raise StartupError(f"the server was not up after {patience:g} s; see {log}") from None
    raise StartupError(f"the server ended with status {process.returncode} while starting; see {log}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """The whole session: a server's workers are processes of their own."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), GRACE)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
