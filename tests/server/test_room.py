"""A server whose shared memory is full, for real: a small file system of its own, filled up by a ballast."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from easerve.builtin import scenes

from .conftest import messages, uri

MIBS = 16
MOUNT = f"mount -t tmpfs -o size={MIBS}m tmpfs /dev/shm"
IN_A_NAMESPACE = ("unshare", "--map-root-user", "--mount", "sh", "-c")


def can_mount() -> bool:
    try:
        return not subprocess.run([*IN_A_NAMESPACE, MOUNT], capture_output=True, timeout=10, check=False).returncode
    except OSError:
        return False


pytestmark = pytest.mark.skipif(not can_mount(), reason="needs leave to mount a small file system for itself")


@dataclass
class Site:
    """A server, and what its processes see as /dev/shm."""

    http: httpx.Client
    memory: Path

    def ask(self, example: scenes.Example) -> httpx.Response:
        body = {"messages": messages(example.question, [uri(picture) for picture in example.pictures])}
        return self.http.post("/v1/chat/completions", json=body | {"temperature": 0, "max_tokens": 16})

    def fill(self, name: str) -> Path:
        """Whatever is left."""
        ballast = self.memory / name
        with ballast.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                return ballast

    def evictions(self) -> float:
        found = re.search(r"^easerve_embedding_cache_evictions_total (\S+)", self.http.get("/metrics").text, re.M)
        assert found is not None
        return float(found.group(1))


@pytest.fixture
def site() -> Iterator[Site]:
    serve = f"{MOUNT} && exec '{sys.executable}' -m easerve serve --port 0 --device cpu"
    server = subprocess.Popen([*IN_A_NAMESPACE, serve], stderr=subprocess.PIPE, text=True, start_new_session=True)
    try:
        assert server.stderr is not None
        ready = next((found for line in server.stderr if (found := re.search(r"ready (http://[^/]+)/v1", line))), None)
        assert ready is not None, "the server ended before it was ready"
        with httpx.Client(base_url=ready.group(1), timeout=60) as http:
            yield Site(http, Path(f"/proc/{server.pid}/root/dev/shm"))
        server.terminate()
        assert server.wait(20) == 0
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGKILL)
        server.wait()


def test_the_cache_gives_way_to_requests_and_without_one_they_get_503(site: Site) -> None:
    *before, new, another = scenes.held_out("one", 22, 31, (scenes.count,))
    for example in before:
        assert site.ask(example).status_code == 200
    assert site.evictions() == 0
    site.fill("ballast")
    answer = site.ask(new)
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == new.answer
    assert site.evictions() == len(before)
    more = site.fill("more")
    site.ask(another)  # the cache gives the last one away
    rest = site.fill("rest")
    refused = site.ask(another)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "no_room")
    assert refused.headers["retry-after"]
    text = site.ask(scenes.Example((), "what is one plus one ?", "two", "sum"))
    assert text.json()["choices"][0]["message"]["content"] == "two"
    more.unlink()
    rest.unlink()
    answer = site.ask(another)
    assert answer.json()["choices"][0]["message"]["content"] == another.answer
