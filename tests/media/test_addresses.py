"""Only public addresses are fetched from, unless the operator named the host."""

from __future__ import annotations

import ssl
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpcore
import pytest

from easerve.errors import BadRequest
from easerve.media.addresses import AddressGuard, is_public
from easerve.media.fetch import Fetcher
from easerve.media.network import GuardedBackend
from easerve.media.options import MediaOptions
from tests.media.servers import reply, running

PRIVATE = [
    "127.0.0.1",
    "127.9.9.9",
    "0.0.0.0",
    "10.1.2.3",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "100.127.255.255",
    "192.0.0.8",
    "192.0.2.1",
    "198.18.0.1",
    "198.51.100.1",
    "203.0.113.1",
    "192.88.99.1",
    "168.63.129.16",
    "224.0.0.1",
    "239.1.1.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::127.0.0.1",
    "::ffff:127.0.0.1",
    "::ffff:10.0.0.1",
    "::ffff:0:7f00:1",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "fc00::1",
    "fd12::1",
    "ff02::1",
    "2001:db8::1",
    "3fff::1",
    "2001::1",
    "2002:7f00:1::",
    "64:ff9b::7f00:1",
    "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::1",
    "100::1",
    "4000::1",
    "nonsense",
]
PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700::1111", "2a00:1450:4001::200e", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", PRIVATE)
def test_reserved_addresses_are_not_public(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_are(address: str) -> None:
    assert is_public(address)


class Names:
    """A resolver with a script: each call gives the next list of addresses, the last for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Sockets(httpcore.AsyncNetworkBackend):
    """Notes where it was told to connect; only `answering` does not refuse."""

    def __init__(self, answering: str = "") -> None:
        self.tried: list[str] = []
        self.answering = answering

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        self.tried.append(host)
        if host != self.answering:
            raise httpcore.ConnectError("refused")
        body = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
        return httpcore.AsyncMockStream([body])


async def test_the_judged_address_is_the_one_connected_to_though_the_name_moves_on() -> None:
    names = Names(["93.184.216.34"], ["127.0.0.1"])
    sockets = Sockets("93.184.216.34")
    fetcher = Fetcher(MediaOptions(), AddressGuard((), names), inner=sockets)
    assert await fetcher.fetch("http://rebinding.test/a.png") == b"ok"
    assert (names.asked, sockets.tried) == (["rebinding.test"], ["93.184.216.34"])
    with pytest.raises(BadRequest, match=r"'rebinding\.test' is not on the public internet"):
        await fetcher.fetch("http://rebinding.test/a.png")
    assert sockets.tried == ["93.184.216.34"]
    await fetcher.aclose()


async def test_one_private_address_among_public_ones_is_enough_to_refuse() -> None:
    sockets = Sockets()
    backend = GuardedBackend(AddressGuard((), Names(["93.184.216.34", "10.0.0.1"])), sockets)
    with pytest.raises(BadRequest):
        await backend.connect_tcp("mixed.test", 80)
    assert sockets.tried == []


async def test_the_next_address_is_tried_when_one_refuses() -> None:
    sockets = Sockets("8.8.4.4")
    backend = GuardedBackend(AddressGuard((), Names(["2606:4700::1111", "8.8.4.4"])), sockets)
    await backend.connect_tcp("two.test", 80)
    assert sockets.tried == ["2606:4700::1111", "8.8.4.4"]


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://0x7f.1/",
        "http://0/",
        "http://[::]/",
        "http://[0:0:0:0:0:0:0:1]:8080/",
        "http://public.example@127.0.0.1/",
        "http://public.example:80@[::1]/",
        "http://127\u30020\u30020\u30021/",
        "http://10.0.0.1/",
        "http://100.64.0.1/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://localhost:9/",
        "https://169.254.169.254/latest/meta-data/",
    ],
)
async def test_private_hosts_are_refused_in_every_spelling(url: str) -> None:
    fetcher = Fetcher(MediaOptions())
    with pytest.raises(BadRequest) as caught:
        await fetcher.fetch(url)
    assert "--allowed-media-domains" in caught.value.message
    await fetcher.aclose()


@pytest.mark.parametrize(
    "url", ["http://0177.0.0.1/", "http://127.0.0.1./", "http://127.0.0.256/", "http://[::1%251]/"]
)
async def test_spellings_that_are_no_address_lead_nowhere(url: str) -> None:
    sockets = Sockets()
    fetcher = Fetcher(MediaOptions(), inner=sockets)
    with pytest.raises(BadRequest):
        await fetcher.fetch(url)
    assert sockets.tried == []
    await fetcher.aclose()


@pytest.mark.parametrize(
    ("allowed", "host", "expected"),
    [
        ("example.org", "example.org", True),
        ("example.org", "EXAMPLE.org.", True),
        ("example.org", "a.example.org", False),
        ("example.org", "notexample.org", False),
        (".example.org", "a.example.org", True),
        (".example.org", "a.b.example.org", True),
        (".example.org", "example.org", False),
        (".example.org", "evil-example.org", False),
        (".example.org", "example.org.evil.test", False),
        ("example.org", "evil-example.org", False),
        ("*.example.org", "a.example.org", True),
        ("*.example.org", "badexample.org", False),
        ("*.example.org", "example.org.evil.test", False),
        ("bücher.example", "xn--bcher-kva.example", True),
        ("::1", "::1", True),
        ("*", "example.org", False),
    ],
)
def test_allowed_domains(allowed: str, host: str, expected: bool) -> None:
    guard = AddressGuard((allowed,))
    if expected:
        guard.check_host(host)
    else:
        with pytest.raises(BadRequest, match="not among those"):
            guard.check_host(host)


async def test_an_allowed_host_may_be_private_and_others_may_not_even_be_looked_up() -> None:
    names = Names(["10.0.0.7"])
    guard = AddressGuard(("files.internal",), names)
    assert await guard.addresses_of("files.internal", 80) == ["10.0.0.7"]
    with pytest.raises(BadRequest):
        await guard.addresses_of("example.org", 80)
    assert names.asked == ["files.internal"]


async def test_a_name_that_is_none_is_a_bad_request() -> None:
    for host in ["no-such-host.invalid", "a" * 70 + ".org", "a..b"]:
        with pytest.raises(BadRequest, match="cannot be resolved"):
            await AddressGuard(()).addresses_of(host, 80)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=pictures.test"]
    names = ["-addext", "subjectAltName=DNS:pictures.test", "-keyout", str(key), "-out", str(cert)]
    try:
        subprocess.run([*command, *names], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("needs the openssl command")
    return key, cert


async def test_tls_is_checked_against_the_name_and_not_the_address(certificate: tuple[Path, Path]) -> None:
    key, cert = certificate
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(cert, key)
    indicated: list[str | None] = []
    serving.sni_callback = lambda _, name, __: indicated.append(name)
    trusting = ssl.create_default_context(cafile=str(cert))
    guard = AddressGuard((".test",), Names(["127.0.0.1"]))
    async with running(serving) as server:
        server.answers["/a"] = reply(b"ok")
        fetcher = Fetcher(MediaOptions(), guard, ssl_context=trusting)
        assert await fetcher.fetch(f"https://pictures.test:{server.port}/a") == b"ok"
        with pytest.raises(BadRequest, match="certificate is not valid"):
            await fetcher.fetch(f"https://other.test:{server.port}/a")
        await fetcher.aclose()
    assert indicated == ["pictures.test", "other.test"]
    assert f"host: pictures.test:{server.port}" in server.heads[0].lower()
