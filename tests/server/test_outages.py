"""Pixels that die with their owner, pictures slow to come, stages without a worker: who is served, and who is told."""

from __future__ import annotations

import asyncio
import io
import os
import signal
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
import pytest_asyncio

from easerve.client import ask
from easerve.server import Server, running
from tests.media import servers

from .conftest import deployment, messages, uri
from .test_deaths import serving, text, until_all_are_up
from .test_faults import PICTURE, assert_error, post
from .test_remote_decoding import soon
from .traffic import assert_nothing_is_held

pytestmark = pytest.mark.asyncio(loop_scope="session")

MOST = 3  # requests in flight
QUESTION = "describe the second picture ."


@dataclass
class Site:
    """A server whose pixels die with the encode worker that loaded them, and a host that answers when told to."""

    server: Server
    http: httpx.AsyncClient
    host: servers.Server

    def holds(self, path: str) -> tuple[str, asyncio.Event]:
        """A picture's URL, and the event it waits for."""
        file, let_go = io.BytesIO(), asyncio.Event()
        PICTURE.save(file, "png")
        whole = servers.reply(file.getvalue())

        async def answer(writer: asyncio.StreamWriter) -> None:
            await let_go.wait()
            await whole(writer)

        self.host.answers[path] = answer
        return self.host.url(path), let_go


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def site() -> AsyncIterator[Site]:
    wanted = deployment(
        topology="e-pd",
        encoders=2,
        transfer="zmq",
        frontend_decoding=False,
        max_requests=MOST,
        allowed_media_domains=("127.0.0.1",),
        media_timeout=60.0,
    )
    async with servers.running() as host, running(wanted, lambda *_: None) as server:
        async with httpx.AsyncClient(base_url=server.url, timeout=120) as http:
            yield Site(server, http, host)


async def test_pictures_on_their_way_count_as_requests_in_flight(site: Site) -> None:
    url, let_go = site.holds("/slow")
    asked = [asyncio.create_task(post(site.http, messages=messages("describe the picture .", [url])))]
    asked += [asyncio.create_task(post(site.http, messages=messages("?", [url]))) for _ in range(MOST + 3)]
    await soon(lambda: sum(task.done() for task in asked) == len(asked) - MOST)
    assert site.host.connections <= MOST
    let_go.set()
    statuses = [answer.status_code for answer in await asyncio.gather(*asked)]
    assert sorted(statuses) == [200] * MOST + [429] * (len(asked) - MOST)
    await assert_nothing_is_held(site.server)


async def test_pixels_that_die_with_their_worker_before_they_are_encoded_cost_no_request(site: Site) -> None:
    """One worker has laid its picture down when it dies; the request still waits for the other's."""
    unseen = uri(PICTURE.rotate(90))  # in no cache, whose embedding would make its pixels superfluous
    url, let_go = site.holds("/late")
    answer = asyncio.create_task(ask(site.http, site.server.model, QUESTION, [unseen, url], 32))
    await soon(lambda: "/late" in site.host.heads[-1] and site.server.ledger.live == 1)
    clients = site.server.supervisor.clients
    [owner] = (name for name, one in clients.items() if "encode" in one.stages and not one.pictures.outstanding)
    os.kill(site.server.supervisor.pids[owner], signal.SIGKILL)
    await soon(lambda: owner not in site.server.supervisor.clients)
    let_go.set()
    wanted = await ask(site.http, site.server.model, QUESTION, [unseen, uri(PICTURE)], 32)
    assert (await answer).text == wanted.text
    metrics = (await site.http.get("/metrics")).text
    assert 'easerve_work_redone_total{stage="media"} 1.0' in metrics
    await until_all_are_up(site.server)
    await assert_nothing_is_held(site.server)


async def test_without_a_decode_worker_requests_wait_for_one_that_returns_and_else_get_503() -> None:
    async with serving(topology="e-p-d", max_restarts=1) as (server, http):
        os.kill(server.supervisor.pids["decode-0"], signal.SIGKILL)
        assert await text(http) == "two", "it waits for the worker on its way back"
        await until_all_are_up(server)
        os.kill(server.supervisor.pids["decode-0"], signal.SIGKILL)
        await soon(lambda: "decode-0" not in server.supervisor.clients)
        for urls in ([], [uri(PICTURE)]):
            for stream in (False, True):
                refused = await post(http, messages=messages("?", urls), stream=stream)
                assert_error(refused, 503, "no decode worker is alive")
                assert refused.headers["retry-after"]
        assert (await http.get("/health")).status_code == 503
        assert (await http.get("/live")).status_code == 200
        await assert_nothing_is_held(server)
