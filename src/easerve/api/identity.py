"""Which checkpoint a folder holds: told by its files, never by where they lie, and without reading gigabytes.

Part of every content key, so two checkpoints that encode a picture differently must not be taken for one. A copy, a
link or another name is the same checkpoint; a revision is another one if its files say something else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from easerve.errors import StartupError

# Bytes read from either end of each tensor. Of every tensor, since training may leave all others as they were (LLaVA
# trains its projector first); of two ends, since either may be padding.
ENDS = 4096
LONGEST_HEADER = 100_000_000  # the format's own limit


def content_salt(folder: Path, processor: bytes) -> bytes:
    """The part of content keys that is not pixels: 32 bytes that stand for the checkpoint and `processor`'s settings.

    Read are config.json, the index of shards, and of each weight file its header and its tensors' ends. Raises
    StartupError for a weight file that is broken.
    """
    digest = hashlib.sha256()
    for part in (processor, *_parts(folder)):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.digest()


def _parts(folder: Path) -> Iterator[bytes]:
    for name in ("config.json", "model.safetensors.index.json"):
        file = folder / name
        yield file.read_bytes() if file.is_file() else b""
    for file in sorted(folder.glob("*.safetensors")):
        yield file.name.encode()
        try:
            with file.open("rb") as opened:
                yield from _weights(opened)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise StartupError(f"{file} cannot be read ({error}); download it again.") from error


def _weights(file: BinaryIO) -> Iterator[bytes]:
    """Of a safetensors file: 8 bytes of the header's length, the header in JSON, the tensors."""
    length = int.from_bytes(file.read(8), "little")
    if length > LONGEST_HEADER:
        raise ValueError("its header is too long")
    header = file.read(length)
    yield header
    for name, tensor in json.loads(header).items():
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            yield from _ends(file, 8 + length + begin, 8 + length + end)


def _ends(file: BinaryIO, begin: int, end: int) -> Iterator[bytes]:
    for place in (begin, max(begin, end - ENDS)):
        file.seek(place)
        yield file.read(min(ENDS, end - place))
