"""Start and stop of the command itself: ready, gone without a trace, and the reason when it cannot start."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil
import pytest

from easerve.builtin import model_path, scenes

from .conftest import run_folders

EASERVE = (sys.executable, "-m", "easerve")


@contextmanager
def serving(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], str, list[psutil.Process]]]:
    """`easerve serve` on a free port: the process, its URL, and its workers."""
    command = [*EASERVE, "serve", "--port", "0", "--device", "cpu", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert process.stderr is not None
        said = ""
        for line in process.stderr:
            said += line
            if match := re.search(r"ready (http://[^/]+)/v1", line):
                assert re.search(r": ready, loaded in \d+\.\d s, \d\.\d\d GiB of host memory", said)
                yield process, match.group(1), psutil.Process(process.pid).children(recursive=True)
                break
        else:
            pytest.fail("the server ended before it was ready")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def fails(*arguments: str, within: float = 30.0) -> str:
    """What `easerve serve` says when it cannot start."""
    command = [*EASERVE, "serve", "--port", "0", "--device", "cpu", *arguments]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=within, check=False)
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    return " ".join(ended.stderr.split())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_everything_and_leaves_nothing(number: signal.Signals) -> None:
    with serving() as (process, url, workers):
        assert httpx.get(f"{url}/health").status_code == 200
        assert len(workers) == 2
        assert run_folders(process.pid)
        os.killpg(process.pid, number)  # as a terminal does: the whole group
        assert process.wait(20) == 0
    assert [worker for worker in workers if worker.is_running()] == []
    assert not run_folders(process.pid)


def test_workers_end_when_the_front_end_is_killed_and_the_next_start_sweeps() -> None:
    with serving() as (killed, _, workers):
        killed.kill()
        killed.wait(10)
        psutil.wait_procs(workers, timeout=10)
        assert [worker for worker in workers if worker.is_running()] == []
        assert run_folders(killed.pid)
    with serving() as (process, _, workers):
        process.terminate()
        process.wait(20)
    assert not run_folders(killed.pid) | run_folders(process.pid)


def test_encode_and_generate_hold_their_own_cores_and_their_own_weights_only() -> None:
    with serving() as (_, _, workers):
        cores = [set(worker.cpu_affinity() or []) for worker in workers]
        if len(psutil.Process().cpu_affinity() or []) > 1:
            assert cores[0].isdisjoint(cores[1])


def test_it_tells_why_it_cannot_start(tmp_path: Path) -> None:
    assert "no-such-folder" in fails("--model", "./no-such-folder")
    assert "config.json" in fails("--model", str(tmp_path))
    (tmp_path / "config.json").write_text('{"architectures": ["BertModel"]}')
    (tmp_path / "preprocessor_config.json").write_text("{}")
    reason = fails("--model", str(tmp_path))
    assert "BertModel" in reason
    assert "Qwen2_5_VLForConditionalGeneration" in reason
    assert "--encode-batch" in fails("--encode-batch", "0")
    (tmp_path / "deployment.yaml").write_text("workers: [{stages: [encode, prefill, decode], device: 'cpu:99'}]")
    assert "workers[0].device" in fails("--config", str(tmp_path / "deployment.yaml"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        assert "choose another --port" in fails("--port", str(taken.getsockname()[1]))


def test_a_checkpoint_without_weights_fails_with_the_reason(tmp_path: Path) -> None:
    for file in model_path().iterdir():
        if file.suffix != ".safetensors":
            (tmp_path / file.name).write_bytes(file.read_bytes())
    assert "safetensors" in fails("--model", str(tmp_path), within=60)
    owners = [int(folder.name.split("-")[1]) for folder in Path("/dev/shm").glob("easerve-*")]
    assert all(map(psutil.pid_exists, owners)), "a start also sweeps"


def test_a_worker_that_dies_while_loading_ends_the_start() -> None:
    command = [*EASERVE, "serve", "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        while not (children := psutil.Process(process.pid).children()):
            time.sleep(0.05)
        children[0].kill()
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()
    assert process.returncode == 1
    assert "died (signal 9)" in " ".join(said.split())


def test_chat_answers_about_a_file(tmp_path: Path) -> None:
    example = scenes.held_out("one", 1)[0]
    example.pictures[0].save(tmp_path / "a picture.png")
    command = [*EASERVE, "chat", example.question, "--image", str(tmp_path / "a picture.png"), "--device", "cpu"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout.strip() == example.answer


def test_demo_prints_one_json_object_and_writes_a_page(tmp_path: Path) -> None:
    page = tmp_path / "runs" / "demo.html"
    command = [*EASERVE, "demo", "--json", "--html", str(page), "--pictures", "24", "--topology", "aggregated"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(ended.stdout)
    assert {"answers_total", "answers_right", "mean_ttft_ms", "stages"} <= set(found)
    assert found["answers_total"] == 24
    assert (found["answers_right"] >= 0.95 * 24) == (ended.returncode == 0)
    assert ended.returncode == 0, found
    text = page.read_text()
    assert text.count("data:image/png;base64,") >= 24
    assert "http://" not in text
    assert "https://" not in text


def test_help_and_version() -> None:
    for command in ("serve", "demo", "chat"):
        said = subprocess.run([*EASERVE, command, "--help"], capture_output=True, text=True, check=True).stdout
        assert "--topology" in said
        assert "--kv-cache-gb" in said
    said = subprocess.run([*EASERVE, "--version"], capture_output=True, text=True, check=True).stdout
    assert re.fullmatch(r"easerve \d+\.\d+\.\d+", said.strip())


def test_sigterm_lets_running_requests_end() -> None:
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 1500, "ignore_eos": True, "temperature": 0}
    with serving() as (process, url, workers), ThreadPoolExecutor() as threads:
        asked = [threads.submit(httpx.post, f"{url}/v1/chat/completions", json=body, timeout=60) for _ in range(3)]
        while sum_of(url, "easerve_requests_admitted") < 3:
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGTERM)  # to the workers too, as service managers do
        time.sleep(0.2)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{url}/health")
        for one in asked:
            response = one.result()
            assert response.status_code == 200, response.text
            assert response.json()["usage"]["completion_tokens"] == 1500
        assert process.wait(20) == 0
    assert [worker for worker in workers if worker.is_running()] == []


def sum_of(url: str, metric: str) -> float:
    lines = httpx.get(f"{url}/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.split("{")[0].split()[0] == metric)
