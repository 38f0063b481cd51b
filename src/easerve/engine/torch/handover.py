"""Keys and values on their way between the pool and elsewhere: another engine, or the host's memory meanwhile.

Whatever is written into the pool is let go of at once, and whatever leaves it is a copy, so that no sequence holds its
keys and values twice.
"""

from __future__ import annotations

from easerve.engine.base import KVState
from easerve.engine.scheduling import Displaced
from easerve.engine.torch.kv_cache import KVCache
from easerve.engine.torch.sequence import Sequence


def copy_out(sequence: Sequence, blocks: list[int], cache: KVCache) -> KVState:
    """All that is computed of the sequence, which lies in `blocks`."""
    keys_values = cache.read(cache.slots(blocks, 0, sequence.computed))
    return KVState(keys_values, sequence.position_of(sequence.computed)[0])


def set_aside(displaced: Displaced[Sequence], cache: KVCache) -> None:
    """Keep what a displaced sequence had in the host's memory; it goes on from there once the pool has room again."""
    kv = copy_out(displaced.sequence, displaced.blocks, cache)
    displaced.sequence.kv = KVState(kv.keys_values.cpu(), kv.next_position)


def write_in(sequence: Sequence, cache: KVCache) -> None:
    """Put what the sequence brought, or had set aside, into its blocks; nothing to do for any other."""
    if sequence.kv is not None:
        cache.write(cache.slots(sequence.blocks, 0, sequence.kv.tokens), sequence.kv.keys_values)
        sequence.kv = None
