"""A front end that is stopped for a while, and one that is told to end while answers are far from ready."""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil

from .test_life import serving, sum_of

STOPPED_SECONDS = 4.0  # four times as long as a worker may be silent
DRAIN_SECONDS = 1.0
LONG: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "ignore_eos": True, "temperature": 0}


def ask(url: str, **fields: Any) -> httpx.Response:
    return httpx.post(f"{url}/v1/chat/completions", json=LONG | fields, timeout=120)


def text(response: httpx.Response) -> str:
    assert response.status_code == 200, response.text
    return str(response.json()["choices"][0]["message"]["content"])


def until_begun(url: str, answers: int) -> None:
    while sum_of(url, "easerve_time_to_first_token_seconds_count") < answers:
        time.sleep(0.02)


def test_a_stopped_front_end_goes_on_with_its_workers_and_a_drain_has_an_end() -> None:
    arguments = ("--heartbeat-timeout", "1", "--drain-timeout", str(DRAIN_SECONDS))
    with serving(*arguments) as (process, url, workers), ThreadPoolExecutor() as threads:
        running = threads.submit(ask, url, max_tokens=1500)
        until_begun(url, 1)
        os.kill(process.pid, signal.SIGSTOP)
        time.sleep(STOPPED_SECONDS)
        os.kill(process.pid, signal.SIGCONT)
        assert text(running.result()) == text(ask(url, max_tokens=1500)), "tokens were lost or doubled"
        assert psutil.Process(process.pid).children(recursive=True) == workers
        assert sum_of(url, "easerve_worker_restarts_total") == 0

        endless = [threads.submit(ask, url, max_tokens=3500, n=8, stream=k % 2 == 1) for k in range(4)]
        until_begun(url, 6)
        told = time.monotonic()
        process.terminate()
        assert process.wait(60) == 0
        assert time.monotonic() - told >= DRAIN_SECONDS
        answers = [one.result() for one in endless]
        assert [answer.status_code for answer in answers] == [503, 200, 503, 200]
        assert all("the server is stopping" in answer.text for answer in answers)
    assert [worker for worker in workers if worker.is_running()] == []
    assert list(Path("/dev/shm").glob(f"easerve-{process.pid}-*")) == []


def test_ctrl_c_after_the_signal_to_stop_ends_running_requests() -> None:
    with serving("--drain-timeout", "300") as (process, url, workers), ThreadPoolExecutor() as threads:
        endless = [threads.submit(ask, url, max_tokens=3500, n=8, stream=k % 2 == 1) for k in range(2)]
        until_begun(url, 2)
        for _ in range(2):  # the second is no hurry
            process.terminate()
            time.sleep(0.3)
        assert process.poll() is None
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        answers = [one.result() for one in endless]
        assert [answer.status_code for answer in answers] == [503, 200]
        assert all("the server is stopping" in answer.text for answer in answers)
    assert [worker for worker in workers if worker.is_running()] == []


def test_a_server_whose_log_nobody_reads_any_more_goes_on() -> None:
    with serving() as (process, url, workers):
        wanted = text(ask(url, max_tokens=20))
        assert process.stderr is not None
        process.stderr.close()
        for worker in workers:
            worker.kill()
        assert text(ask(url, max_tokens=20)) == wanted
        assert sum_of(url, "easerve_worker_restarts_total") == len(workers)
        process.terminate()
        assert process.wait(60) == 0
