"""What goes wrong around a server: broken input of every kind, and clients that leave."""

from __future__ import annotations

import asyncio
import io
import json
import struct
import zlib

import httpx
import numpy as np
import pytest
from PIL import Image

from easerve.builtin import scenes
from easerve.server import Server

from .conftest import messages, uri
from .traffic import assert_nothing_is_held

pytestmark = pytest.mark.asyncio(loop_scope="session")

PICTURE = scenes.held_out("one", 1)[0].pictures[0]


def file_of(picture: Image.Image, kind: str, **options: object) -> bytes:
    file = io.BytesIO()
    picture.save(file, kind, **options)
    return file.getvalue()


def bomb() -> bytes:
    """A PNG that says it is 20,000 by 20,000 pixels."""
    header = struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(b"\0" * 1000)), (b"IEND", b"")]
    body = b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + body


SERVED = {
    "animated GIF": uri(file_of(PICTURE, "GIF", save_all=True, append_images=[PICTURE.rotate(90)]), "gif"),
    "16-bit grey": uri(Image.fromarray(np.full((60, 60), 40_000, np.uint16))),
    "palette": uri(PICTURE.convert("P")),
    "CMYK": uri(PICTURE.convert("CMYK"), "jpeg"),
    "alpha": uri(PICTURE.convert("RGBA")),
    "grey": uri(PICTURE.convert("L")),
    "one pixel": uri(Image.new("RGB", (1, 1), "red")),
    "percent-encoded": uri(PICTURE).replace("+", "%2B"),
}
REFUSED = {
    "zero bytes": (uri(b""), 400),
    "truncated JPEG": (uri(file_of(PICTURE, "JPEG")[:-400], "jpeg"), 400),
    "SVG": (uri(b"<svg xmlns='http://www.w3.org/2000/svg'/>", "svg+xml"), 400),
    "text": (uri(b"hello there"), 400),
    "bomb": (uri(bomb()), 413),
    "broken base64": ("data:image/png;base64,????", 400),
    "loopback": ("http://127.0.0.1:9/a.png", 400),
    "metadata service": ("http://169.254.169.254/latest/meta-data", 400),
    "private": ("https://10.0.0.1/a.png", 400),
    "outside the folder": ("file:///etc/passwd", 400),
    "other scheme": ("ftp://example.org/a.png", 400),
    "needle": (uri(Image.new("RGB", (1, 300))), 400),
}


async def post(http: httpx.AsyncClient, **fields: object) -> httpx.Response:
    body = {"messages": messages("what is one plus one ?", []), "temperature": 0, "max_tokens": 8} | fields
    return await http.post("/v1/chat/completions", json=body)


def assert_error(response: httpx.Response, status: int, *words: str) -> None:
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert response.headers["x-request-id"]
    for word in words:
        assert word in json.dumps(error), error


async def assert_still_serving(http: httpx.AsyncClient, server: Server) -> None:
    answer = await post(http)
    assert answer.status_code == 200
    assert answer.json()["choices"][0]["message"]["content"] == "two"
    assert server.pipeline.admission.in_flight == 0
    assert server.pipeline.encode_pool.queue_length == 0


@pytest.mark.parametrize("name", SERVED)
async def test_odd_pictures_are_served(http: httpx.AsyncClient, name: str) -> None:
    response = await post(http, messages=messages("describe the picture .", [SERVED[name]]))
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("name", REFUSED)
async def test_bad_media_are_refused_naming_the_part(http: httpx.AsyncClient, colocated: Server, name: str) -> None:
    url, status = REFUSED[name]
    response = await post(http, messages=messages("describe the picture .", [SERVED["grey"], url]))
    assert_error(response, status, "messages[0].content[1]")
    await assert_still_serving(http, colocated)


async def test_bad_fields_are_refused(http: httpx.AsyncClient, colocated: Server) -> None:
    malformed = await http.post(
        "/v1/chat/completions", content=b'{"messages": [', headers={"content-type": "application/json"}
    )
    assert_error(malformed, 400)
    assert_error(await post(http, messages=[]), 400, "messages")
    assert_error(await post(http, messages=[{"role": "wizard", "content": "hi"}]), 400, "role")
    assert_error(await post(http, messages="hi"), 400, "messages")
    assert_error(await post(http, temperature="hot"), 400, "temperature")
    assert_error(await post(http, model="no-such-model"), 404, "no-such-model")
    assert_error(await post(http, messages=messages("word " * 5000, [])), 400, "4096")
    assert_error(await post(http, messages=messages("?", [SERVED["grey"]] * 5)), 400, "4")
    assert_error(await http.get("/v1/nothing"), 404)
    assert_error(await http.post("/v1/chat/completions", content=b"x" * (65 * 2**20)), 413)
    await assert_still_serving(http, colocated)


async def test_a_local_file_in_the_allowed_folder_is_served(
    http: httpx.AsyncClient, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = next(path for path in tmp_path_factory.getbasetemp().iterdir() if path.name.startswith("pictures"))
    url = (folder / "allowed.png").as_uri()
    assert (await post(http, messages=messages("describe the picture .", [url]))).status_code == 200
    assert_error(await post(http, messages=messages("?", [url.replace("allowed", "missing")])), 400)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_leaves_frees_everything_within_100_ms(colocated: Server, stream: bool) -> None:
    host, port = colocated.url.removeprefix("http://").split(":")
    body = json.dumps(
        {
            "messages": messages("describe the picture .", [SERVED["grey"]]),
            "max_tokens": 3000,
            "ignore_eos": True,
            "stream": stream,
        }
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    _, writer = await asyncio.open_connection(host, int(port))
    writer.write(head.encode() + body)
    await writer.drain()
    worker = colocated.supervisor.clients["generate-0"]
    while not worker.outstanding:
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.1)
    writer.transport.abort()
    await asyncio.sleep(0.1)
    assert colocated.pipeline.admission.in_flight == 0
    assert worker.outstanding == 0
    await _next_heartbeat(colocated, "generate-0")
    assert worker.last_heartbeat is not None
    assert worker.last_heartbeat.kv_blocks_used == 0


async def _next_heartbeat(server: Server, name: str) -> None:
    client = server.supervisor.clients[name]
    before = client.last_heartbeat
    while client.last_heartbeat is before:
        await asyncio.sleep(0.02)


async def test_buffers_are_gone_when_requests_are(http: httpx.AsyncClient, colocated: Server) -> None:
    await asyncio.gather(
        *(post(http, messages=messages("describe the picture .", [SERVED["grey"]] * 3)) for _ in range(8))
    )
    await assert_nothing_is_held(colocated)
