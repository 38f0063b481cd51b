"""What may be fetched, from where, and how large it may be."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MediaOptions:
    """Limits of one media item. Sizes are bytes and pixels, times seconds."""

    fetch_timeout_s: float = 10.0  # for the whole download, redirects included
    max_bytes: int = 50 * 2**20
    max_pixels: int = 64_000_000  # decoded, about 190 MB of RGB
    max_redirects: int = 3
    max_downloads: int = 32  # at once
    decode_threads: int = 4
    allowed_local_path: Path | None = None  # file:// URLs may read below it
    allowed_domains: tuple[str, ...] = ()  # when set, only these; ".example.org" stands for all its subdomains
