"""Which network addresses media may be fetched from: public ones, and those of hosts the operator allowed by name.

A host is resolved once, every address it has is judged, and the connection goes to the address that was judged, so
that a name cannot point elsewhere a moment later (DNS rebinding).
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address

from easerve.errors import BadRequest

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]


async def resolve(host: str, port: int) -> Sequence[str]:
    """All addresses of a host, by the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(entry[4][0]) for entry in found]


class AddressGuard:
    """Decides where a URL's host may be connected to."""

    def __init__(self, allowed_domains: Sequence[str], resolver: Resolver = resolve) -> None:
        self._allowed = tuple(domain.lower().removeprefix("*") for domain in allowed_domains)
        self._resolver = resolver

    async def address_of(self, host: str, port: int) -> str:
        """The address to connect to. Raises BadRequest for a host that is not allowed or not found."""
        host = host.lower().rstrip(".")
        if self._allowed and not self._is_allowed(host):
            raise BadRequest(f"media host {host!r} is not among those the server allows; send the data inline instead")
        try:
            addresses = await self._resolver(host, port)
        except OSError as error:
            raise BadRequest(f"media host {host!r} cannot be resolved: {error.strerror or error}") from error
        if not addresses:
            raise BadRequest(f"media host {host!r} has no address")
        if not self._allowed and not all(_is_public(address) for address in addresses):
            raise BadRequest(
                f"media host {host!r} is a private, loopback or otherwise reserved address, which this server does not "
                "fetch from; the operator can permit it with --allowed-media-domains"
            )
        return addresses[0]

    def _is_allowed(self, host: str) -> bool:
        return any(host == domain or (domain.startswith(".") and host.endswith(domain)) for domain in self._allowed)


def _is_public(text: str) -> bool:
    address: IPv4Address | IPv6Address = ip_address(text.split("%", maxsplit=1)[0])
    inner = _embedded(address)
    return address.is_global and not address.is_multicast and (inner is None or _is_public(str(inner)))


def _embedded(address: IPv4Address | IPv6Address) -> IPv4Address | None:
    """The IPv4 address inside an IPv6 one that stands for it (mapped, 6to4, Teredo, NAT64)."""
    if isinstance(address, IPv4Address):
        return None
    if address.ipv4_mapped or address.sixtofour:
        return address.ipv4_mapped or address.sixtofour
    if address.teredo:
        return address.teredo[1]
    if address.packed[:12] == bytes.fromhex("0064ff9b0000000000000000"):
        return IPv4Address(address.packed[12:])
    return None
