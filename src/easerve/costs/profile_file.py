"""Stage times measured on a machine, as a JSON file: what `easerve profile` writes and `make_costs` reads.

Seconds are medians; every one is of a stage that had its device to itself.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from easerve.errors import StartupError

FORMAT = "easerve-profile/1"


class Machine(msgspec.Struct, frozen=True):
    """What the times are true of. `device` as workers name it: `cpu:0`, `cuda:0`."""

    processor: str
    device: str
    torch: str

    @property
    def kind(self) -> str:
        return self.device.partition(":")[0]


class Model(msgspec.Struct, frozen=True):
    """`name` ends with a digest of its config.json; `dtype` as it was asked for (auto: the checkpoint's own)."""

    name: str
    parameters: int
    dtype: str


class EncodeTime(msgspec.Struct, frozen=True):
    """Of `batch` equal items."""

    patches: int
    tokens: int
    batch: int
    seconds: float


class PrefillTime(msgspec.Struct, frozen=True):
    """Of a step with one chunk of `new` tokens behind `context`."""

    new: int
    context: int
    seconds: float


class DecodeTime(msgspec.Struct, frozen=True):
    """Of a step with one token for each of `sequences`, behind `context` tokens each."""

    sequences: int
    context: int
    seconds: float


class TransferTime(msgspec.Struct, frozen=True):
    """To put bytes down in one process, open them in another, read and release them, messages not included."""

    nbytes: int
    seconds: float


class Slowdown(msgspec.Struct, frozen=True):
    """`stage` takes so many times as long while other cores of the machine are busy with `beside`."""

    stage: str
    beside: str
    factor: float


class ServerTime(msgspec.Struct, frozen=True):
    """CPU seconds that a server adds to its engines.

    Of its front end, and of a client on the same machine: for a request (`request`), for each picture (`picture`) and
    each of its pixels (`pixel`), for each token that is passed on (`token`). Of a worker: around an engine step.
    """

    request: float = 0.0
    picture: float = 0.0
    pixel: float = 0.0
    token: float = 0.0
    step: float = 0.0


class Profile(msgspec.Struct, frozen=True, kw_only=True):
    """A stage that was not measured has no times."""

    format: str = FORMAT
    machine: Machine
    model: Model
    kv_bytes_per_token: int
    embedding_bytes_per_token: int
    kv_tokens: int  # of the engine's pool
    encode: tuple[EncodeTime, ...] = ()
    prefill: tuple[PrefillTime, ...] = ()
    decode: tuple[DecodeTime, ...] = ()
    transfer: tuple[TransferTime, ...] = ()
    transfer_kind: str = ""
    slowdown: tuple[Slowdown, ...] = ()
    server: ServerTime = ServerTime()


def write_profile(profile: Profile, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(profile), indent=1) + b"\n")


def read_profile(path: Path) -> Profile:
    """Raises StartupError where there is none, or what there is is none."""
    try:
        profile = msgspec.json.decode(path.read_bytes(), type=Profile)
    except OSError as error:
        raise StartupError(f"profile {path}: {error.strerror}; measure one with `easerve profile`") from error
    except msgspec.MsgspecError as error:
        raise StartupError(f"{path} is no profile ({error}); measure one with `easerve profile`") from error
    if profile.format != FORMAT:
        raise StartupError(f"{path} has the format {profile.format!r}, read here is {FORMAT!r}; measure it again")
    return profile
