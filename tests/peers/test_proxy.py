"""The proxy in front of vLLM's servers, run in vLLM's environment against two servers that note what they get."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-vllm" / "bin" / "python"
READY = ROOT / ".venv-vllm" / ".ready"
STREAM = b'data: {"choices": []}\n\ndata: [DONE]\n\n'

pytestmark = pytest.mark.skipif(not READY.exists(), reason="there is no vLLM here: run `make setup-vllm`")

Log = list[tuple[str, str, Any]]  # server, begun or ended, body


@contextmanager
def server(name: str, log: Log, answer: Callable[[Any], tuple[int, bytes]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._send(200, b'{"data": [{"id": "it"}]}', "application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            log.append((name, "begun", body))
            status, content = answer(body)
            log.append((name, "ended", body))
            self._send(status, content, "text/event-stream" if body.get("stream") else "application/json")

        def _send(self, status: int, content: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("content-type", kind)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=httpd.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{httpd.server_address[1]}"
    finally:
        httpd.shutdown()
        thread.join()
        httpd.server_close()


@contextmanager
def proxy(encoder: str, generator: str) -> Iterator[httpx.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = str(ROOT / "benchmarks" / "peers" / "proxy.py")
    words = [str(PYTHON), script, "--port", str(port), "--encoder", encoder, "--generator", generator]
    process = subprocess.Popen(words)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as http:
            for _ in range(300):
                try:
                    http.get("/v1/models")
                    break
                except httpx.ConnectError:
                    time.sleep(0.1)
            yield http
    finally:
        process.terminate()
        process.wait(10)


def picture(name: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": name}}


BODY = {
    "model": "it",
    "stream": True,
    "max_tokens": 32,
    "messages": [{"role": "user", "content": [picture("one"), picture("two"), {"type": "text", "text": "what?"}]}],
}


def test_pictures_are_encoded_together_and_then_the_request_goes_on_as_it_came() -> None:
    log: Log = []
    both = threading.Barrier(2, timeout=10)

    def encode(_: Any) -> tuple[int, bytes]:
        both.wait()  # passes only if the other picture is being encoded meanwhile
        return 200, b"{}"

    with server("encode", log, encode) as encoder, server("generate", log, lambda _: (200, STREAM)) as generator:
        with proxy(encoder, generator) as http:
            answer = http.post("/v1/chat/completions", json=BODY)
    assert (answer.status_code, answer.content) == (200, STREAM)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert [name for name, *_ in log] == ["encode"] * 4 + ["generate"] * 2
    alone = [body for name, what, body in log if (name, what) == ("encode", "begun")]
    contents = [body["messages"][0]["content"] for body in alone]
    assert sorted(contents, key=str) == [[picture("one")], [picture("two")]]
    assert all((body["max_tokens"], body["stream"]) == (1, False) for body in alone)
    assert log[-1][2] == BODY


def test_text_alone_is_not_encoded_and_a_refusal_comes_back() -> None:
    log: Log = []
    with server("encode", log, lambda _: (400, b'{"no": 1}')) as encoder:
        with server("generate", log, lambda _: (200, STREAM)) as generator, proxy(encoder, generator) as http:
            text = http.post("/v1/chat/completions", json={**BODY, "messages": [{"role": "user", "content": "hi"}]})
            refused = http.post("/v1/chat/completions", json=BODY)
    assert text.status_code == 200
    assert (refused.status_code, refused.json()) == (400, {"no": 1})
    assert [name for name, what, _ in log if what == "begun"].count("generate") == 1
