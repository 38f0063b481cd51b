"""What encode and local prefill sharing one device come to there: measurements, in one JSON file and plots.

    python tools/gpu_check.py --out runs/gpu_check            # one CUDA device, at most 5 minutes
    python tools/gpu_check.py --tiny --device cpu             # the same on tiny models, in seconds

Needs torch, transformers, numpy, what these require, and this repository; on CUDA also triton and cuda-python. No
network, no weights: models are random, of the shape of Qwen2.5-VL-7B, and a language model of 32 B where memory allows.
Sections: `disjoint` (encode and prefill are on different SMs), `switching` (its cost), `roofline` (engine steps),
`encode` (by size of picture) and `prefill` (seconds by batch or tokens and SMs), `load` (none, static, dynamic under
Poisson arrivals). A section that fails is written down, and the others go on. Results are written after each, so that a
run that is cut short leaves what it has; one that hangs ends itself and prints where.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import sys
import time
import traceback
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

from gpu_checks import stand_in  # noqa: E402

stand_in.install()

import torch  # noqa: E402

from easerve.engine.partition.base import Partition  # noqa: E402
from easerve.engine.partition.measure import ShareTimes  # noqa: E402
from easerve.engine.partition.opening import open_partition  # noqa: E402
from easerve.engine.torch.options import EngineOptions  # noqa: E402
from easerve.policy.partition import EncodeProfile  # noqa: E402
from gpu_checks import disjoint, load, models, plots, roofline, switching, times  # noqa: E402
from gpu_checks.setting import Setting, machine  # noqa: E402

SECONDS = 270.0
GRACE = 20.0  # beyond them, until what hangs is ended
LARGE_BYTES = 90 * 2**30  # free on the device, for the language model of 32 B and its KV
LARGE_SECONDS = 10.0  # that it is taken to need
KV_TOKENS = {False: 65536, True: 2048}  # by whether it is the tiny model


class Report:
    """Results so far, in a file at all times."""

    def __init__(self, folder: Path, setting: Setting) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.results: dict[str, Any] = {}
        self.failed: list[str] = []
        self._folder = folder
        self._setting = setting
        self._started = time.monotonic()

    def section(self, name: str, measure: Callable[[], dict[str, Any]]) -> None:
        """Merge in what it measured; an error is written down, and the others go on."""
        began = time.monotonic()
        try:
            self.results |= measure()
        except Exception as error:
            traceback.print_exc()
            self.failed.append(name)
            self.results[name] = {"error": f"{type(error).__name__}: {error}"}
        print(f"{name}: {time.monotonic() - began:.1f} s", file=sys.stderr)
        self.write()

    def write(self) -> None:
        passed = not self.failed and self.results.get("disjoint", {}).get("passed", False)
        state = {"passed": passed, "seconds": time.monotonic() - self._started, "notes": self._setting.notes}
        (self._folder / "gpu_check.json").write_text(json.dumps(self.results | state, indent=1, default=str) + "\n")
        self.results |= state


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--tiny", action="store_true", help="models of a few thousand weights")
    parser.add_argument("--out", type=Path, default=Path("runs/gpu_check"), help="folder for gpu_check.json and plots")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="that all of it may take")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("there is no CUDA device that torch can use; try --tiny --device cpu")
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    faulthandler.dump_traceback_later(arguments.seconds + GRACE, exit=True)
    setting = Setting(device, dtype, arguments.tiny, time.monotonic() + arguments.seconds)
    report = Report(arguments.out, setting)
    report.section("machine", lambda: {"machine": machine(device)})
    partition = _open(setting)
    _partitioned(report, setting, partition)
    _draw(report, arguments.out)
    print(json.dumps(report.results, indent=1, default=str), flush=True)
    partition.close()
    faulthandler.cancel_dump_traceback_later()
    return 0 if report.results["passed"] else 1


def _open(setting: Setting) -> Partition:
    try:
        return open_partition(setting.device, split=True)
    except Exception as error:  # whatever it is, the rest can still be measured
        setting.notes.append(f"not partitioned: {type(error).__name__}: {error}")
        return open_partition(setting.device, split=False)


def _partitioned(report: Report, setting: Setting, partition: Partition) -> None:
    """All sections; what several need is made by the first of them, or again by the next if that failed."""
    options = EngineOptions(kv_cache_tokens=KV_TOKENS[setting.tiny])
    encoder = cache(partial(models.Encoder, setting))
    small = cache(partial(models.language, setting, models.TEXT_TINY if setting.tiny else models.TEXT_7B, options))
    peaks = cache(partial(roofline.peaks, setting))
    steps: dict[str, Any] = {}
    encode: dict[int, Any] = {}

    def engine_steps(name: str, model: Callable[[], models.Language]) -> dict[str, Any]:
        steps[name] = roofline.measure(setting, model(), peaks())
        return {"roofline": {"peaks": vars(peaks()), "models": steps}}

    def large_steps() -> dict[str, Any]:
        if _free() < LARGE_BYTES or setting.left < LARGE_SECONDS:
            setting.notes.append("no language model of 32 B, for lack of memory or time")
            return {}
        return engine_steps("32b", partial(models.language, setting, models.TEXT_32B, options))

    def pictures(side: int) -> dict[str, Any]:
        encode[side] = times.encode(setting, partition, encoder(), small(), side)
        return {"encode": encode}

    def under_load() -> dict[str, Any]:
        profile = _profile(encode[setting.sizes.sides[0]])
        return {"load": load.measure(setting, partition, encoder(), small(), profile)}

    report.section("disjoint", lambda: {"disjoint": disjoint.measure(setting, partition)})
    report.section("switching", lambda: {"switching": switching.measure(setting, partition)})
    report.section("roofline", partial(engine_steps, "tiny" if setting.tiny else "7b", small))
    for side in setting.sizes.sides:
        report.section(f"encode of {side} px", partial(pictures, side))
    report.section("prefill", lambda: {"prefill": times.prefill(setting, partition, small())})
    report.section("load", under_load)
    if setting.device.type == "cuda" and not setting.tiny:
        report.section("roofline of 32b", large_steps)


def _draw(report: Report, folder: Path) -> None:
    """What there are figures for; a plot that fails costs no other."""
    written: list[str] = []

    def draw(name: str) -> dict[str, Any]:
        written.extend(plots.draw(name, report.results, folder))
        return {"plots": written}

    for name in plots.PLOTS:
        report.section(f"plot of {name}", partial(draw, name))


def _free() -> int:
    """Bytes on the device that nobody keeps."""
    torch.cuda.empty_cache()
    return torch.cuda.mem_get_info()[0]


def _profile(found: dict[str, Any]) -> EncodeProfile:
    """Of the pictures that come under load, as they were measured."""
    return ShareTimes(**{name: found[name] for name in ShareTimes.__dataclass_fields__}).profile()


if __name__ == "__main__":
    sys.exit(main())
