"""A profile of shares as a JSON file, with the hardware and the model that it is true of."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from easerve.engine.partition.measure import Rows, ShareTimes
from easerve.errors import StartupError
from easerve.models.build import own_dtype, read_config
from easerve.models.weights import Weights

FORMAT = "easerve-shares/1"


@dataclass(frozen=True)
class ShareDocument:
    """`times` of encode for pictures of `side` x `side` pixels. `dtype` is what was computed in, never `auto`."""

    hardware: str
    model: str
    dtype: str
    unit: str
    side: int
    times: ShareTimes

    def write(self, path: Path) -> None:
        path.write_text(json.dumps({"format": FORMAT, **asdict(self)}, indent=1) + "\n")

    @classmethod
    def read(cls, path: Path) -> ShareDocument:
        """Raises StartupError where there is none, or what there is is none."""
        try:
            content = json.loads(path.read_text())
            if content.pop("format") != FORMAT:
                raise ValueError("another format")
            times = _times(content.pop("times"))
            times.profile()
            return cls(**content, times=times)
        except OSError as error:
            raise StartupError(f"partition table {path}: {error.strerror}") from error
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StartupError(
                f"{path} is no partition table ({error}); make one with `easerve profile --stage encode --shares`"
            ) from error

    def check(self, path: Path, hardware: str, model: str, dtype: str) -> None:
        """Raises StartupError if it was measured elsewhere, of another model, or in another dtype."""
        for what, here in (("hardware", hardware), ("model", model), ("dtype", dtype)):
            if here != (there := getattr(self, what)):
                raise StartupError(
                    f"partition table {path} was measured on other {what}: {there}, and this is {here}; measure again "
                    "with `easerve profile --stage encode --shares`, or leave the table out"
                )


def model_name(folder: Path) -> str:
    """A name and a digest of its shape: times do not depend on the values of weights."""
    digest = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()[:12]
    return f"{folder.name} {digest}"


def dtype_name(folder: Path, asked: str) -> str:
    """`asked`, or the checkpoint's own for `auto`."""
    own = own_dtype(read_config(folder), Weights(folder)) if asked == "auto" else asked
    return str(own).removeprefix("torch.")


def _times(fields: dict[str, Any]) -> ShareTimes:
    def rows(name: str) -> Rows:
        return tuple(map(tuple, fields.pop(name)))

    def row(name: str) -> tuple[Any, ...]:
        return tuple(fields.pop(name))

    return ShareTimes(
        batches=row("batches"),
        units=row("units"),
        alone=rows("alone"),
        beside=rows("beside"),
        prefill_tokens_per_second=row("prefill_tokens_per_second"),
        **fields,
    )
