"""Stage times from a profile of the machine at hand, interpolated between what was measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from easerve.costs.base import ChunkSize, ItemSize
from easerve.costs.grid import Curve, Surface
from easerve.costs.profile_file import Profile, read_profile
from easerve.costs.shapes.find import find_shape
from easerve.costs.sharing import Contention
from easerve.errors import StartupError


class ProfiledCosts:
    """A `StageCosts`. Shares stretch encode and prefill as arithmetic, decode as memory traffic (see sharing.py).

    A batch of unequal items costs what as many items of their mean size cost. A step of several chunks costs what each
    of them would alone, with what any step costs, however small, paid once.
    """

    def __init__(self, profile: Profile, path: Path, contention: Contention) -> None:
        self.kv_bytes_per_token = profile.kv_bytes_per_token
        self.embedding_bytes_per_token = profile.embedding_bytes_per_token
        self.kv_tokens = profile.kv_tokens
        source = f"measured on {profile.machine.processor}, {profile.machine.device} ({path})"
        self.sources = dict.fromkeys(("encode", "prefill", "decode"), source)
        self._path = path
        self._contention = contention
        self._encode = _surface((one.patches, one.batch, one.seconds) for one in profile.encode)
        self._prefill = _surface((one.context, one.new, one.seconds) for one in profile.prefill)
        self._decode = _surface((one.context, one.sequences, one.seconds) for one in profile.decode)
        steps = [one.seconds for one in profile.prefill] + [one.seconds for one in profile.decode]
        self._least = min(steps, default=0.0)

    def encode(self, items: Sequence[ItemSize], share: float = 1.0, beside: float = 0.0) -> float:
        if not items:
            return 0.0
        arithmetic, _ = self._contention.left(share, beside)
        mean = sum(item.patches for item in items) / len(items)
        return self._asked(self._encode, "encode")(mean, len(items)) / arithmetic

    def step(self, chunks: Sequence[ChunkSize], share: float = 1.0, beside: float = 0.0) -> float:
        if not chunks:
            return 0.0
        arithmetic, bandwidth = self._contention.left(share, beside)
        decoding = [chunk.context for chunk in chunks if chunk.new == 1]
        prefilling = [chunk for chunk in chunks if chunk.new > 1]
        total = 0.0
        if prefilling:
            prefill = self._asked(self._prefill, "prefill")
            total += sum(prefill(chunk.context, chunk.new) for chunk in prefilling) / arithmetic
        if decoding:
            decode = self._asked(self._decode, "decode")
            total += decode(sum(decoding) / len(decoding), len(decoding)) / bandwidth
        repeated = len(prefilling) + bool(decoding) - 1
        return total - repeated * self._least

    def _asked(self, surface: Surface | None, stage: str) -> Surface:
        if surface is None:
            raise StartupError(f"{self._path} has no times of {stage}; measure with `easerve profile --stage {stage}`")
        return surface


def read_costs(path: Path, model: str, hardware: str, contention: Contention) -> ProfiledCosts:
    """Raises StartupError for a file that is no profile, or is one of another kind of device or another model."""
    profile = read_profile(path)
    if hardware != profile.machine.kind:
        raise StartupError(
            f"{path} was measured on {profile.machine.device}; give the hardware as {profile.machine.kind}"
        )
    shape = find_shape(model)
    if shape.parameters != profile.model.parameters:
        raise StartupError(
            f"{path} was measured with {profile.model.name} ({profile.model.parameters:,} parameters), not with "
            f"{shape.name} ({shape.parameters:,})"
        )
    return ProfiledCosts(profile, path, contention)


class ProfiledLink:
    """A `LinkCosts`."""

    def __init__(self, profile: Profile, path: Path) -> None:
        """Raises StartupError if transfer was not measured."""
        if not profile.transfer:
            raise StartupError(f"{path} has no times of transfer; measure with `easerve profile --stage transfer`")
        times = sorted((one.nbytes, one.seconds) for one in profile.transfer)
        self.source = f"measured over {profile.transfer_kind} on {profile.machine.processor} ({path})"
        self._curve = Curve(*zip(*times, strict=True))

    def seconds(self, nbytes: int) -> float:
        return self._curve(nbytes) if nbytes else 0.0


def _surface(points: Iterable[tuple[int, int, float]]) -> Surface | None:
    """Rows may have been measured at different sizes: each is a curve, read where any of them has a point."""
    rows: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for row, column, seconds in points:
        rows[row].append((column, seconds))
    if not rows:
        return None
    curves = {row: Curve(*zip(*sorted(found), strict=True)) for row, found in rows.items()}
    columns = sorted({column for found in rows.values() for column, _ in found})
    return Surface.of(lambda row, column: curves[row](column), sorted(rows), columns)
