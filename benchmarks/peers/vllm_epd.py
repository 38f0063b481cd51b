"""Start vLLM as one encoder and one prefill/decode server, each with engine threads on cores of its own, and a proxy.

Run with vLLM's Python; ends with everything it started. The embeddings go through files, which is what vLLM's
ECExampleConnector does; they are kept in memory (/dev/shm), so that no disk is in the way.

    python vllm_epd.py --model FOLDER --port 8000 --encode-cores 0 --generate-cores 1
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

LOOK_EVERY = 0.5  # seconds
PATIENCE = 600.0  # seconds for a server to come up
GRACE = 15.0  # seconds for one to end


@contextmanager
def running(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(command, env={**os.environ, **environment})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def until_up(port: int, process: subprocess.Popen[bytes]) -> None:
    """Raises SystemExit if the server ends or takes too long."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and process.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(LOOK_EVERY)
    raise SystemExit(f"the vLLM server on port {port} did not come up")


def server(arguments: argparse.Namespace, port: int, role: str, storage: str) -> list[str]:
    transfer = {
        "ec_connector": "ECExampleConnector",
        "ec_role": role,
        "ec_connector_extra_config": {"shared_storage_path": storage},
    }
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--model", arguments.model, "--host", "127.0.0.1", "--port", str(port)),
        *("--ec-transfer-config", json.dumps(transfer)),
        *arguments.engine_args,
    ]


def serve(arguments: argparse.Namespace, storage: str) -> int:
    encode_port, generate_port = arguments.port + 1, arguments.port + 2
    encoder = [*server(arguments, encode_port, "ec_producer", storage), "--no-enable-prefix-caching"]
    generator = server(arguments, generate_port, "ec_consumer", storage)
    proxy = [sys.executable, str(Path(__file__).with_name("proxy.py")), "--port", str(arguments.port)]
    proxy += ["--encoder", f"http://127.0.0.1:{encode_port}", "--generator", f"http://127.0.0.1:{generate_port}"]
    on_encode = {"VLLM_CPU_OMP_THREADS_BIND": arguments.encode_cores, "VLLM_USE_V2_MODEL_RUNNER": "0"}
    on_generate = {"VLLM_CPU_OMP_THREADS_BIND": arguments.generate_cores}
    with running(encoder, on_encode) as first, running(generator, on_generate) as second:
        until_up(encode_port, first)
        until_up(generate_port, second)
        with running(proxy, {}) as third:
            while all(one.poll() is None for one in (first, second, third)):
                time.sleep(LOOK_EVERY)
    return 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="folder")
    parser.add_argument("--port", type=int, required=True, help="of the proxy; the servers take the two after it")
    parser.add_argument("--encode-cores", required=True, help="as vLLM writes them: 0, or 0-3")
    parser.add_argument("--generate-cores", required=True)
    parser.add_argument("engine_args", nargs="*", help="after --, options of both servers")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with TemporaryDirectory(prefix="vllm-embeddings-", dir="/dev/shm") as storage:
        return serve(arguments, storage)


if __name__ == "__main__":
    sys.exit(main())
