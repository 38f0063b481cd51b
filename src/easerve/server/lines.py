"""What a server's messages and tensors travel over: its folder, and the front end's ends of both."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from easerve.transfer.base import TransferName
from easerve.transfer.choose import Transfers, make_transfer
from easerve.transfer.ledger import Ledger
from easerve.workers import run_folder
from easerve.workers.hub import Hub


@dataclass(frozen=True)
class Lines:
    """Open until the block of `open_lines` ends."""

    folder: Path
    hub: Hub
    transfer: Transfers
    ledger: Ledger

    def room(self) -> int | None:
        """Bytes that are left where embeddings lie; None for no bound but the machine's."""
        return shutil.disk_usage(self.folder).free if self.transfer.kind == "shm" else None


@contextmanager
def open_lines(transfer_name: TransferName) -> Iterator[Lines]:
    """To be called in the server's loop. Raises StartupError if there is no such transfer here."""
    with ExitStack() as exits:
        folder = run_folder.create()
        exits.callback(run_folder.remove, folder)
        hub = Hub(folder)
        exits.callback(hub.close)
        hub.start()
        transfer = make_transfer(transfer_name, folder, "front-end")
        exits.callback(transfer.close)
        yield Lines(folder, hub, transfer, Ledger(transfer))
