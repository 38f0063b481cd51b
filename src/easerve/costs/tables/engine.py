"""The engine of aiconfigurator-core that interpolates its measured kernels, behind three functions."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from easerve.costs.shapes.language import LanguageShape
from easerve.costs.tables.config import engine_config
from easerve.errors import StartupError

BACKEND = "vllm"  # whose kernels
Phase = Literal["prefill", "decode"]
_MODES = {"bf16": "bfloat16", "fp8": "fp8", "nvfp4": "nvfp4"}

logging.getLogger("aiconfigurator_core").setLevel(logging.ERROR)  # tells of rows it takes from elsewhere; so do we


class NotMeasured(Exception):
    """The tables have no such kernel."""


class Kernels:
    """The kernels measured on one system: `operations` lists of aiconfigurator-core, and the time each takes."""

    def __init__(self, system: str) -> None:
        """Raises StartupError when aiconfigurator-core is not installed, NotMeasured when it lacks the system."""
        try:
            from aiconfigurator_core.sdk import engine, perf_database
        except ImportError as error:
            raise StartupError(
                "measured kernel tables come with aiconfigurator-core, which is not installed; "
                "pip install 'easerve[plan]', or ask for the roofline alone"
            ) from error
        self.system = system
        try:
            self.version: str = perf_database.resolve_query_version(system, BACKEND, "current")
        except ValueError as error:
            raise NotMeasured(str(error)) from error
        self._database = perf_database.get_database(system, BACKEND, self.version)
        self._handle = engine.EngineHandle.for_database(self._database)

    @property
    def source(self) -> str:
        from importlib.metadata import version

        package = version("aiconfigurator-core")
        return f"aiconfigurator-core {package}, {BACKEND} {self.version} kernels on {self.system}"

    def language_model(
        self, shape: LanguageShape, tp: int, precision: str
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """The operations of a prefill and of a decode step on one device, by aiconfigurator-core's own definitions.

        Raises NotMeasured for a shape or a parallelism that these do not cover.
        """
        from aiconfigurator_core.sdk import config_builders, engine, models

        mode = _MODES[precision]
        built = config_builders.build_model_config(
            tp_size=tp, pp_size=1, attention_dp_size=1, moe_tp_size=tp if shape.experts else 1, moe_ep_size=1,
            gemm_quant_mode=mode, moe_quant_mode=mode, fmha_quant_mode="bfloat16", kvcache_quant_mode="bfloat16",
        )  # fmt: skip
        with TemporaryDirectory() as folder:
            (Path(folder) / "config.json").write_text(json.dumps(engine_config(shape)), encoding="utf-8")
            try:
                model = models.get_model(folder, built, BACKEND)
                spec = engine.build_engine_spec_json(
                    model, model_path=folder, system=self.system, backend=BACKEND, backend_version=self.version,
                    kv_block_size=None, systems_path=None, nextn=0, database=self._database,
                )  # fmt: skip
            except (ValueError, AssertionError, KeyError, RuntimeError) as error:
                raise NotMeasured(str(error)) from error
        parsed = json.loads(spec)
        return parsed["context_ops"], parsed["generation_ops"]

    def seconds(self, operations: str, phase: Phase, batch: int, length: int, prefix: int = 0) -> float:
        """Of `operations` (JSON) one after the other. Raises NotMeasured when one of them has no rows."""
        from aiconfigurator_core.sdk.errors import PerfDataNotAvailableError

        try:
            found = self._handle.evaluate_ops_json(
                operations, is_context=phase == "prefill", batch_size=batch, s=length, prefix=prefix
            )
        except (PerfDataNotAvailableError, ValueError) as error:
            raise NotMeasured(str(error)) from error
        return float(sum(milliseconds for _, milliseconds, _, _ in found)) / 1000


def named(operations: Sequence[dict[str, Any]], *endings: str) -> list[dict[str, Any]]:
    """Those whose name ends with one of `endings`."""
    return [one for one in operations if _name(one).endswith(endings)]


def unnamed(operations: Sequence[dict[str, Any]], *endings: str) -> list[dict[str, Any]]:
    return [one for one in operations if not _name(one).endswith(endings)]


def _name(operation: dict[str, Any]) -> str:
    (fields,) = operation.values()
    return str(fields["name"])
