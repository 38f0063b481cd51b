"""Several buffers at once or none: what holds half of what it needs would hold it in vain."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from easerve.request import TensorRef
from easerve.transfer.base import Transfer

Key = TypeVar("Key")
Item = TypeVar("Item")


def put_all(
    transfer: Transfer, items: Mapping[Key, Item], put: Callable[[Transfer, Item], TensorRef]
) -> dict[Key, TensorRef]:
    """Put every item with `put`, say `put_tensor`; if one fails, release those before it and raise its error."""
    refs: dict[Key, TensorRef] = {}
    try:
        for key, item in items.items():
            refs[key] = put(transfer, item)
    except BaseException:
        for ref in refs.values():
            transfer.release(ref)
        raise
    return refs
