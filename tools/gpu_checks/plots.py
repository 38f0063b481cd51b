"""Pictures of the figures, where matplotlib is installed."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def draw(results: dict[str, Any], folder: Path) -> list[str]:
    """Names of the files written."""
    try:
        import matplotlib  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot  # type: ignore[import-not-found,unused-ignore]

    written = []
    for name, plot in (("encode", _encode), ("prefill", _prefill), ("load", _load), ("roofline", _roofline)):
        if name not in results:
            continue
        figure, axes = pyplot.subplots(figsize=(7, 4))
        plot(results[name], axes)
        axes.legend(fontsize=7)
        figure.tight_layout()
        figure.savefig(folder / f"{name}.png", dpi=120)
        pyplot.close(figure)
        written.append(f"{name}.png")
    return written


def _encode(found: dict[str, Any], axes: Any) -> None:
    for side, times in found.items():
        for items, alone, beside in zip(times["batches"], times["alone"], times["beside"], strict=True):
            line = axes.plot(times["units"], alone, label=f"{side} px, {items} items")
            axes.plot(times["units"], beside, linestyle=":", color=line[0].get_color())
    axes.set(xlabel="units", ylabel="seconds", yscale="log", title="Encode alone (solid), beside prefill (dotted)")


def _prefill(found: list[dict[str, Any]], axes: Any) -> None:
    for tokens in sorted({row["tokens"] for row in found}):
        rows = [row for row in found if row["tokens"] == tokens]
        axes.plot([row["units"] for row in rows], [row["seconds"] for row in rows], label=f"{tokens} tokens")
    axes.set(xlabel="units", ylabel="seconds", yscale="log", title="Prefill of one chunk")


def _load(found: dict[str, Any], axes: Any) -> None:
    measures = ("throughput", "p99_ttft", "p99_tpot")
    for index, (name, values) in enumerate(found["median"].items()):
        heights = [values[key] / found["median"]["none"][key] for key in measures]
        axes.bar([at + 0.25 * index for at in range(len(measures))], heights, 0.25, label=name)
    axes.set_xticks(range(len(measures)), measures)
    axes.set(title=f"Under load, none = 1 ({found['rate']:.2f} requests/s)")


def _roofline(found: dict[str, Any], axes: Any) -> None:
    for model, times in found["models"].items():
        steps = times["steps"]
        names = [f"{row['step']} {row['batch']}" for row in steps]
        axes.plot(names, [row["efficiency"] for row in steps], marker="o", label=model)
    axes.set(ylabel="least / measured", ylim=(0, 1.05), title="Engine steps against the roofline")
