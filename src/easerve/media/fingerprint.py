"""The content key of a media item: what is encoded and how, never where it came from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from blake3 import blake3


def content_key(pixels: npt.NDArray[np.uint8], salt: bytes) -> str:
    """Hex digest of decoded pixels and `salt` (processor settings, model identity and revision).

    Cryptographic, so that nobody can make two pictures share an embedding.
    """
    digest = blake3(repr((pixels.shape, pixels.dtype.str)).encode())
    digest.update(np.ascontiguousarray(pixels).reshape(-1).data)
    digest.update(salt)
    return digest.hexdigest()
