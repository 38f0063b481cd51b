"""Files of file:// URLs, below the one folder the operator opened."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from urllib.parse import unquote, urlsplit

from easerve.errors import BadRequest, TooLarge
from easerve.media.contents import shorten


def local(url: str, allowed: Path | None, max_bytes: int) -> bytes:
    """The file of a file:// URL, if it lies below `allowed` once every link is followed.

    Raises BadRequest, in the same words for what is outside and what does not exist, and TooLarge above `max_bytes`.
    """
    if allowed is None:
        raise BadRequest(
            "file: URLs are not allowed; send the picture as a data: URI, or have the operator open a folder with "
            "--allowed-local-media-path"
        )
    content = _read(_path_of(url, allowed), url, max_bytes)
    if len(content) > max_bytes:
        raise TooLarge(f"{shorten(url)} is larger than {max_bytes} bytes, the most for one item; scale it down")
    return content


def _path_of(url: str, allowed: Path) -> Path:
    try:
        parts = urlsplit(url.strip())
        if parts.netloc not in {"", "localhost"}:
            raise BadRequest(f"{shorten(url)} names a host; a file URL is file:///folder/picture.png")
        path = Path(unquote(parts.path)).resolve(strict=True)
        if path.is_relative_to(allowed.resolve()):
            return path
    except (OSError, ValueError, RuntimeError):  # absent, no path, links in a circle
        pass
    raise _refused(url)


def _read(path: Path, url: str, max_bytes: int) -> bytes:
    """At most one byte more than allowed. The last step of the path is not followed if it became a link."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(handle, "rb") as file:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(handle).st_mode):  # a pipe or device could hold the thread for ever
                raise _refused(url)
            return file.read(max_bytes + 1)
    except OSError:
        raise _refused(url) from None


def _refused(url: str) -> BadRequest:
    return BadRequest(f"{shorten(url)} is no readable file below the folder this server allows; check the path")
