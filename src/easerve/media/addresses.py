"""Which network addresses media may be fetched from: public ones, and those of hosts the operator allowed by name.

A host is resolved once per connection, every address it has is judged, and the connection goes to an address that
was judged, so that a name cannot point elsewhere a moment later (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import httpx

from easerve.errors import BadRequest
from easerve.media.contents import shorten

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]

# Addresses that Python's `is_global` lets through, or lets through in some versions.
_NOT_PUBLIC_4 = tuple(
    IPv4Network(network)
    for network in (
        "192.0.0.0/24",  # protocol assignments
        "192.88.99.0/24",  # 6to4 relays, withdrawn
        "168.63.129.16/32",  # Azure's host agent, reachable from any of its machines
    )
)
_ALLOCATED_6 = IPv6Network("2000::/3")  # the only block from which public IPv6 addresses are given out
_NOT_PUBLIC_6 = tuple(
    IPv6Network(network)
    for network in (
        "2001::/23",  # protocol assignments, Teredo tunnels among them
        "2002::/16",  # 6to4: an IPv4 address in disguise
        "2001:db8::/32",  # documentation
        "3fff::/20",  # documentation
    )
)
_NAT64 = IPv6Network("64:ff9b::/96")  # how an IPv6-only network reaches IPv4: the last 32 bits are the address


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class AddressGuard:
    """Decides where a URL's host may be connected to. For `allowed_domains` see MediaOptions."""

    def __init__(self, allowed_domains: Sequence[str], resolver: Resolver = resolve) -> None:
        self._restricted = bool(allowed_domains)
        self._hosts = {_plain(domain) for domain in allowed_domains if not domain.startswith((".", "*"))}
        below = [domain.removeprefix("*").removeprefix(".") for domain in allowed_domains if domain[:1] in {".", "*"}]
        self._below = tuple("." + _plain(domain) for domain in below if domain)
        self._resolver = resolver

    def check_host(self, host: str) -> None:
        """Raises BadRequest if `host` is not among the allowed domains, where there are any."""
        if self._restricted and not self._is_allowed(host):
            raise BadRequest(
                f"media host {shorten(host)} is not among those this server fetches from; send the picture as a data: "
                "URI, or have the operator add the host to --allowed-media-domains"
            )

    async def addresses_of(self, host: str, port: int) -> list[str]:
        """The addresses to connect to, best first. Raises BadRequest for a host that is not allowed or not found."""
        self.check_host(host)
        try:
            addresses = list(await self._resolver(host, port))
        except (OSError, ValueError, OverflowError) as error:  # the latter two: no name, no port number
            reason = getattr(error, "strerror", None) or "no valid name or port"
            raise BadRequest(f"media host {shorten(host)} cannot be resolved: {reason}; check the URL") from error
        if not addresses:
            raise BadRequest(f"media host {shorten(host)} has no address; check the URL")
        if not self._restricted and not all(is_public(address) for address in addresses):
            raise BadRequest(
                f"media host {shorten(host)} is not on the public internet, and this server fetches from nowhere else; "
                "send the picture as a data: URI, or have the operator add the host to --allowed-media-domains"
            )
        return addresses

    def _is_allowed(self, host: str) -> bool:
        name = _plain(host)
        return name in self._hosts or name.endswith(self._below)


def _plain(host: str) -> str:
    """A host name for comparison: lower case, in ASCII, without a final dot or brackets."""
    host = host.strip().lower().rstrip(".").removeprefix("[").removesuffix("]")
    try:
        return httpx.URL(scheme="http", host=host).raw_host.decode("ascii").lower()
    except (httpx.InvalidURL, ValueError):
        return host


def is_public(text: str) -> bool:
    """Whether an address, as text, is one that anybody on the internet may be sent to."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return _is_public_4(address) if isinstance(address, IPv4Address) else _is_public_6(address)


def _is_public_4(address: IPv4Address) -> bool:
    if address.is_multicast or address.is_reserved or not address.is_global:
        return False
    return not any(address in network for network in _NOT_PUBLIC_4)


def _is_public_6(address: IPv6Address) -> bool:
    if address.ipv4_mapped is not None:
        return _is_public_4(address.ipv4_mapped)
    if address in _NAT64:
        return _is_public_4(IPv4Address(address.packed[12:]))
    if address not in _ALLOCATED_6 or not address.is_global:
        return False
    return not any(address in network for network in _NOT_PUBLIC_6)
