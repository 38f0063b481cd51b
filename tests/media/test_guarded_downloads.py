"""The guard at work: a fetcher for the public internet meets hosts that point, redirect or move to private addresses.

The only public address is a server on 127.0.0.1 in truth: sockets for it are opened there, and all others are noted.
"""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpcore
import pytest

from easerve.errors import BadRequest
from easerve.media.addresses import AddressGuard
from easerve.media.fetch import Fetcher
from easerve.media.options import MediaOptions
from tests.media.servers import Server, redirect, reply, running

PUBLIC = "93.184.216.34"
HOSTS = {
    "public.example": [PUBLIC],
    "other.example": [PUBLIC],
    "private.example": ["10.0.0.1"],
    "mixed.example": [PUBLIC, "192.168.0.1"],
    "metadata.example": ["169.254.169.254"],
    "mapped.example": ["::ffff:127.0.0.1"],
    "nobody.example": [],
}


class Reroute(httpcore.AsyncNetworkBackend):
    """Opens sockets for the public address at the test's server. Nothing may ever ask for another."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self._inner = httpcore.AnyIOBackend()

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        self.asked.append((host, port))
        assert host == PUBLIC, f"a socket to {host} was opened"
        return await self._inner.connect_tcp("127.0.0.1", port, timeout, local_address, socket_options)


class Internet:
    """A fetcher with no domains named, the public server it can reach, and what was looked up and connected to."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.sockets = Reroute()
        self.looked_up: list[str] = []
        self.moves: dict[str, list[list[str]]] = {}  # answers of hosts that change theirs, one by one
        self.fetcher = Fetcher(MediaOptions(fetch_timeout_s=3.0), AddressGuard((), self._resolve), inner=self.sockets)

    async def _resolve(self, host: str, port: int) -> Sequence[str]:
        self.looked_up.append(host)
        if host in self.moves:
            return self.moves[host].pop(0)
        return HOSTS.get(host, [host])

    def url(self, host: str, path: str = "/a") -> str:
        return self.server.url(path, host)

    async def refused(self, url: str) -> str:
        with pytest.raises(BadRequest) as caught:
            await self.fetcher.fetch(url)
        return caught.value.message


@asynccontextmanager
async def internet() -> AsyncIterator[Internet]:
    async with running() as server:
        world = Internet(server)
        try:
            yield world
        finally:
            await world.fetcher.aclose()


async def test_a_public_host_is_fetched_from_under_its_own_name_and_port() -> None:
    async with internet() as world:
        world.server.answers["/a?b=c%20d"] = reply(b"ok")
        assert await world.fetcher.fetch(world.url("public.example", "/a?b=c%20d#part")) == b"ok"
        assert world.sockets.asked == [(PUBLIC, world.server.port)]
        assert f"\r\nHost: public.example:{world.server.port}\r\n" in world.server.heads[0]


@pytest.mark.parametrize("host", ["private.example", "mixed.example", "metadata.example", "mapped.example", "10.0.0.1"])
async def test_a_host_with_a_private_address_is_refused_without_a_connection(host: str) -> None:
    async with internet() as world:
        message = await world.refused(world.url(host))
        assert f"'{host}' is not on the public internet" in message
        assert "data: URI" in message
        assert "--allowed-media-domains" in message
        assert world.sockets.asked == []


async def test_a_host_without_addresses_is_named() -> None:
    async with internet() as world:
        assert "'nobody.example' has no address; check the URL" in await world.refused(world.url("nobody.example"))


@pytest.mark.parametrize(
    "target", ["http://private.example/", "http://mixed.example/", "http://127.0.0.1/", "http://[::1]/", "//10.0.0.1/x"]
)
async def test_a_redirect_from_a_public_to_a_private_host_ends_there(target: str) -> None:
    async with internet() as world:
        world.server.answers["/a"] = redirect(target)
        assert "is not on the public internet" in await world.refused(world.url("public.example"))
        assert len(world.sockets.asked) == 1


async def test_a_name_is_resolved_once_per_connection_and_cannot_move_in_between() -> None:
    async with internet() as world:
        world.moves["moving.example"] = [[PUBLIC], ["127.0.0.1"]]
        world.server.answers["/a"] = reply(b"ok", Connection="close")
        assert await world.fetcher.fetch(world.url("moving.example")) == b"ok"
        assert world.looked_up == ["moving.example"]
        assert "is not on the public internet" in await world.refused(world.url("moving.example"))
        assert [host for host, _ in world.sockets.asked] == [PUBLIC]


async def test_a_name_that_moves_between_two_hops_is_judged_at_each() -> None:
    async with internet() as world:
        world.moves["moving.example"] = [[PUBLIC], ["169.254.169.254"]]
        world.server.answers["/a"] = redirect("/b")
        assert "is not on the public internet" in await world.refused(world.url("moving.example"))
        assert world.looked_up == ["moving.example"] * 2
        assert [host for host, _ in world.sockets.asked] == [PUBLIC]


async def test_credentials_go_to_their_own_host_and_do_not_follow_a_redirect_elsewhere() -> None:
    async with internet() as world:
        port = world.server.port
        world.server.answers |= {
            "/a": redirect(f"http://other.example:{port}/b"),
            "/b": reply(b"ok"),
        }
        assert await world.fetcher.fetch(f"http://user:secret@public.example:{port}/a") == b"ok"
        first, second = world.server.heads
        assert base64.b64encode(b"user:secret").decode() in first
        assert f"\r\nHost: public.example:{port}\r\n" in first
        assert "authorization" not in second.lower()
        assert f"\r\nHost: other.example:{port}\r\n" in second


async def test_a_host_before_an_at_sign_is_a_user_and_not_the_host() -> None:
    async with internet() as world:
        message = await world.refused("http://public.example:80@private.example/a")
        assert "'private.example'" in message
        assert world.looked_up == ["private.example"]
        assert world.sockets.asked == []
