"""What a process holds from its start to its end is no garbage, and need not be looked through again and again."""

from __future__ import annotations

import gc


def settle() -> None:
    """Call once everything is loaded: Python's collector then looks at what comes later only.

    Now and then it looks through all objects, and nothing else runs in the process meanwhile. Measured: 35 ms for the
    120,000 of a front end, 230 ms for the 380,000 of a worker with torch. `gc.unfreeze` takes it back.
    """
    gc.collect()
    gc.freeze()
