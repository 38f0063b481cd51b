"""Media decoded by encode workers: the same answers and refusals as by the front end, and nothing left of either."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from easerve.client import ask
from easerve.config import Deployment
from easerve.errors import EAServeError
from easerve.media import MediaLoader
from easerve.server import Server, running
from tests.media import servers

from .conftest import deployment, messages, run_folders, uri
from .test_answers import answers, examples
from .test_faults import PICTURE, REFUSED, SERVED, assert_error, post

pytestmark = pytest.mark.asyncio(loop_scope="session")

FIELD = "messages[0].content[0].image_url.url"


@dataclass
class Site:
    """A server that decodes remotely, beside a host that media come from."""

    deployment: Deployment
    server: Server
    folder: Path
    host: servers.Server
    http: httpx.AsyncClient

    async def at_rest(self) -> None:
        """Waits until nothing is held but what the cache gives back when told to."""
        async with asyncio.timeout(20):
            while any(self.held):
                self.server.pipeline.cache.make_room()
                await asyncio.sleep(0.02)

    @property
    def held(self) -> tuple[int, int, list[str], list[str]]:
        files = [file.name for file in self.folder.iterdir() if not file.is_socket()]
        return self.server.transfer.buffers, self.server.ledger.live, files, self.loading

    @property
    def loading(self) -> list[str]:
        """Workers that load pictures."""
        return [name for name, worker in self.server.supervisor.clients.items() if worker.pictures.outstanding]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    pictures = tmp_path_factory.mktemp("remote")
    PICTURE.save(pictures / "allowed.png")
    wanted = deployment(
        topology="e-pd",
        encoders=2,
        frontend_decoding=False,
        limit_images=4,
        allowed_local_media_path=pictures,
        allowed_media_domains=("127.0.0.1",),
    )
    before = run_folders()
    async with servers.running() as host, running(wanted, lambda *_: None) as server:
        [folder] = run_folders() - before
        async with httpx.AsyncClient(base_url=server.url, timeout=60) as http:
            yield Site(wanted, server, folder, host, http)


async def soon(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


async def test_answers_are_right_and_those_of_front_end_decoding(site: Site, colocated: Server) -> None:
    """Pictures of mixed sizes, one and two a request, each asked about twice."""
    questions = examples(10, 5, 2)
    remote = await answers(site.server, questions * 2, 8)
    assert remote == await answers(colocated, questions, 4) * 2
    right = sum(answer == example.answer for answer, example in zip(remote, questions * 2, strict=True))
    assert right >= 0.95 * len(remote)
    await site.at_rest()


async def test_a_repeated_picture_is_encoded_once_whoever_decodes_it(site: Site) -> None:
    timings = []
    for kind in ("png", "bmp"):  # other bytes, same pixels
        answer = await ask(site.http, site.server.model, "describe the picture .", [uri(PICTURE, kind)] * 3, 16)
        timings.append(answer.timing)
    assert timings[0]["embeddings"] == {"encoded": 1, "joined": 2}
    assert timings[1]["embeddings"] == {"cached": 3}
    assert all(timing["decode_media"] > 0 for timing in timings)
    await site.at_rest()


@pytest.mark.parametrize("name", SERVED)
async def test_odd_pictures_are_served(site: Site, name: str) -> None:
    response = await post(site.http, messages=messages("describe the picture .", [SERVED[name]]))
    assert response.status_code == 200, response.text


@pytest.mark.parametrize("name", REFUSED)
async def test_bad_media_are_refused_in_the_words_of_front_end_decoding(site: Site, name: str) -> None:
    url, status = REFUSED[name]
    refused = await post(site.http, messages=messages("describe the picture .", [url, SERVED["grey"]]))
    assert_error(refused, status, FIELD)
    loader = MediaLoader(site.deployment.media)
    try:
        await loader.load(url, param=FIELD)
    except EAServeError as error:
        words = {"message": error.message, "type": error.kind, "param": error.param, "code": error.code}
        assert refused.json()["error"] == words
    else:
        assert name == "needle", "refused by the model's rules, not by the loader"
    finally:
        await loader.aclose()
    await site.at_rest()


async def test_files_and_hosts_are_read_where_media_are_decoded(site: Site) -> None:
    file = io.BytesIO()
    PICTURE.save(file, "png")
    site.host.answers["/a.png"] = servers.reply(file.getvalue())
    local = (site.deployment.allowed_local_media_path / "allowed.png").as_uri()  # type: ignore[operator]
    texts = [
        (await ask(site.http, site.server.model, "describe the picture .", [url], 32)).text
        for url in (uri(PICTURE), local, site.host.url("/a.png"))
    ]
    assert texts == [texts[0]] * 3
    assert len(site.host.heads) == 1
    await site.at_rest()


async def test_a_client_that_leaves_ends_the_loads_at_the_workers(site: Site) -> None:
    gone = asyncio.Event()

    async def pour(writer: asyncio.StreamWriter) -> None:  # notices when nobody reads on
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            while True:
                writer.write(b"x" * 1000)
                await writer.drain()
                await asyncio.sleep(0.01)
        finally:
            gone.set()

    site.host.answers["/pour"] = pour
    body = json.dumps({"messages": messages("?", [SERVED["grey"], site.host.url("/pour"), SERVED["palette"]])}).encode()
    host, port = site.server.url.removeprefix("http://").split(":")
    _, writer = await asyncio.open_connection(host, int(port))
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await soon(lambda: site.host.open_connections == 1 and site.server.ledger.live == 2)
    writer.transport.abort()
    await asyncio.wait_for(gone.wait(), 20)
    await site.at_rest()
    assert site.server.pipeline.admission.in_flight == 0


async def test_an_encode_worker_killed_while_loading_loses_no_request(site: Site) -> None:
    file = io.BytesIO()
    PICTURE.save(file, "png")
    whole = servers.reply(file.getvalue())
    hang = asyncio.Event()

    async def hang_at_first(writer: asyncio.StreamWriter) -> None:
        if len([head for head in site.host.heads if "/once" in head]) == 1:
            await hang.wait()
        await whole(writer)

    site.host.answers["/once"] = hang_at_first
    urls = [uri(PICTURE), site.host.url("/once"), uri(PICTURE)]
    asked = asyncio.create_task(ask(site.http, site.server.model, "describe the second picture .", urls, 32))
    await soon(lambda: site.host.open_connections == 1 and site.server.ledger.live == 2)
    [victim] = site.loading
    os.kill(site.server.supervisor.pids[victim], signal.SIGKILL)
    answer = await asked
    hang.set()
    assert (
        answer.text
        == (await ask(site.http, site.server.model, "describe the second picture .", [urls[0]] * 3, 32)).text
    )
    await soon(lambda: len(site.server.supervisor.clients) == 3, 120)
    await site.at_rest()


async def test_without_encode_workers_media_are_unavailable_and_text_is_served() -> None:
    before = run_folders()
    async with (
        running(deployment(frontend_decoding=False, max_restarts=0), lambda *_: None) as server,
        httpx.AsyncClient(base_url=server.url, timeout=60) as http,
    ):
        os.kill(server.supervisor.pids["encode-0"], signal.SIGKILL)
        await soon(lambda: "encode-0" not in server.supervisor.clients)
        refused = await post(http, messages=messages("?", [SERVED["grey"]]))
        assert_error(refused, 503, "no encode worker is alive")
        assert refused.headers["retry-after"]
        assert (await post(http)).status_code == 200
        assert (server.transfer.buffers, server.ledger.live) == (0, 0)
    assert run_folders() == before
