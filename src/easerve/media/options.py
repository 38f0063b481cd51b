"""What may be fetched, from where, and how large it may be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MediaOptions:
    """Limits of one media item. Sizes are bytes and pixels, times seconds.

    `allowed_domains`: when set, only these hosts are fetched from. "example.org" is that host alone;
    ".example.org" and "*.example.org" are all hosts below it, but not itself. An allowed host may resolve to a
    private address (a file server in the cluster), so allow no domain whose subdomains strangers can register.
    """

    fetch_timeout_s: float = 10.0  # for the whole download, redirects included
    decode_timeout_s: float = 30.0  # against files that are small and take minutes (JPEGs of a thousand scans)
    max_bytes: int = 50 * 2**20
    max_pixels: int = 64_000_000  # decoded, about 190 MB of RGB
    min_side: int = 1  # pixels
    max_redirects: int = 3
    max_downloads: int = 32  # at once
    decode_threads: int = 4
    allowed_local_path: Path | None = None  # file:// URLs may read below it
    allowed_domains: tuple[str, ...] = ()
