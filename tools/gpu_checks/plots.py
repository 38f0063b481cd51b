"""Pictures of the figures: SVG files that need nothing but a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from easerve.bench.svg import COLOURS, Axis, Bar, Heading, Line, bars, chart

MEASURES = {"throughput": "throughput", "p99_ttft": "TTFT P99", "p99_tpot": "TPOT P99"}
MS = Axis("ms", log=True)
THICKNESS = 22.0  # pixels of a bar

Drawn = Iterator[tuple[str, str]]  # names of files, without ending, and their contents


def draw(name: str, results: dict[str, Any], folder: Path) -> list[str]:
    """The plots of one of `PLOTS`; names of the files written: none where it was not measured."""
    found = results.get(name)
    if not found or "error" in found:
        return []
    written = []
    for file, svg in PLOTS[name](found):
        (folder / f"{file}.svg").write_text(svg + "\n", encoding="utf-8")
        written.append(f"{file}.svg")
    return written


def _encode(found: dict[int, Any]) -> Drawn:
    """Of every size of picture."""
    for side, times in found.items():
        lines = []
        for place, items in enumerate(times["batches"]):
            for state, dashed in (("alone", False), ("beside", True)):
                points = _ms(times["units"], times[state][place])
                lines.append(Line(f"{items} at once, {state}", points, COLOURS[place], dots=True, dashed=dashed))
        legend = [(f"{items} at once", COLOURS[place]) for place, items in enumerate(times["batches"])]
        heading = Heading(f"Encode of {side}x{side} pictures, alone and beside prefill (dashed)", legend)
        yield f"encode_{side}", chart(lines, Axis("units of encode"), MS, heading=heading)


def _prefill(found: list[dict[str, Any]]) -> Drawn:
    lines = []
    for place, tokens in enumerate(sorted({row["tokens"] for row in found})):
        rows = sorted((row["units"], row["seconds"]) for row in found if row["tokens"] == tokens)
        lines.append(Line(f"{tokens} tokens", _ms(*zip(*rows, strict=True)), COLOURS[place], dots=True))
    heading = Heading("Prefill of one chunk, alone", [(line.name, line.colour) for line in lines])
    yield "prefill", chart(lines, Axis("units of prefill"), MS, heading=heading)


def _load(found: dict[str, Any]) -> Drawn:
    medians = found["median"]
    colours = dict(zip(medians, COLOURS, strict=False))
    rows = [
        Bar(f"{title}, {name}", 0.0, [(name, values[key] / medians["none"][key], colours[name])])
        for key, title in MEASURES.items()
        for name, values in medians.items()
    ]
    heading = Heading(f"The same arrivals ({found['rate']:.3g} requests/s), relative to none", list(colours.items()))
    yield "load", bars(rows, Axis("multiples of none"), THICKNESS, heading=heading)


def _roofline(found: dict[str, Any]) -> Drawn:
    colours = dict(zip(found["models"], COLOURS, strict=False))
    rows = [
        Bar(f"{model}, {row['step']} of {row['batch']}", 0.0, [(model, 100 * row["efficiency"], colours[model])])
        for model, times in found["models"].items()
        for row in times["steps"]
    ]
    heading = Heading("Engine steps: least possible over measured time", list(colours.items()))
    yield "roofline", bars(rows, Axis("%", least_end=100), THICKNESS, heading=heading)


def _ms(units: Sequence[int], seconds: Sequence[float]) -> list[tuple[float, float]]:
    return [(count, 1e3 * value) for count, value in zip(units, seconds, strict=True)]


PLOTS: dict[str, Callable[[Any], Drawn]] = {
    "encode": _encode,
    "prefill": _prefill,
    "load": _load,
    "roofline": _roofline,
}
