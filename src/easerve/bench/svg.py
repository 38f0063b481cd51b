"""Small plots as SVG text: lines, steps and bars, with axes. Nothing is loaded, nothing moves."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#1e88e5", "#fb8c00", "#43a047", "#8e24aa", "#c62828", "#00897b", "#6d4c41", "#3949ab", "#7cb342", "#546e7a")
WIDTH, HEIGHT = 560, 300
LEFT, RIGHT, TOP, BOTTOM = 56, 20, 14, 42
STEPS = (1, 2, 5)  # between ticks, times powers of ten
COLUMNS = 4  # of a legend
STYLE = "svg { font: 11px system-ui, sans-serif; background: white; } text { fill: #444; } .grid { stroke: #e6e6e6; }"
Point = tuple[float, float]


@dataclass(frozen=True)
class Heading:
    """Makes a plot a file of its own: what a page would draw around it. `legend` is (name, colour)."""

    title: str
    legend: Sequence[tuple[str, str]] = ()

    @property
    def height(self) -> int:
        """Pixels, all above the plot."""
        return 26 + 16 * -(-len(self.legend) // COLUMNS)


@dataclass(frozen=True)
class Line:
    """A curve; `dots` marks its points."""

    name: str
    points: Sequence[Point]
    colour: str
    dots: bool = False
    dashed: bool = False


@dataclass(frozen=True)
class Axis:
    """From 0 to its largest value or `least_end`; where it is logarithmic, between the ticks around its values."""

    title: str
    log: bool = False
    least_end: float = 1e-9


class Scale:
    """Values of an axis to pixels."""

    def __init__(self, values: Sequence[float], axis: Axis, first: float, last: float) -> None:
        positive = [value for value in values if value > 0]
        self.axis = axis
        self._first, self._last = first, last
        least = min(positive, default=1.0)
        most = max([axis.least_end, *(positive or [1.0])])
        self._low = max(mark for mark in _marks(least) if mark <= least) if axis.log else 0.0
        self._high = min(mark for mark in _marks(most) if mark > self._low and mark >= most) if axis.log else most

    def __call__(self, value: float) -> float:
        share = (
            math.log(max(value, self._low) / self._low) / math.log(self._high / self._low)
            if self.axis.log
            else value / self._high
        )
        return self._first + (self._last - self._first) * share

    def ticks(self) -> list[float]:
        """Round values: 1, 2 and 5 times powers of ten."""
        if self.axis.log:
            powers = range(math.floor(math.log10(self._low)), math.ceil(math.log10(self._high)) + 1)
            marks = [step * 10.0**power for power in powers for step in STEPS]
            return [mark for mark in marks if self._low * 0.999 <= mark <= self._high * 1.001]
        rough = self._high / 5
        unit = 10 ** math.floor(math.log10(rough))
        step = next(unit * size for size in (1, 2, 5, 10) if unit * size >= rough * 0.999)
        return [step * number for number in range(int(self._high / step * 1.0001) + 1)]


def _marks(value: float) -> list[float]:
    """Ticks of a logarithmic axis on both sides of `value`."""
    power = math.floor(math.log10(value))
    return [step * 10.0**near for near in (power - 1, power, power + 1) for step in STEPS]


def chart(lines: Sequence[Line], across: Axis, up: Axis, height: int = HEIGHT, heading: Heading | None = None) -> str:
    """Curves over common axes. Without a heading, title and legend are the page's."""
    points = [point for line in lines for point in line.points]
    x = Scale([point[0] for point in points], across, LEFT, WIDTH - RIGHT)
    y = Scale([point[1] for point in points], up, height - BOTTOM, TOP)
    body = "".join([*_axes(x, y, height), *(_curve(line, x, y) for line in lines)])
    return _svg(body, height, heading)


def _svg(body: str, height: float, heading: Heading | None) -> str:
    above = heading.height if heading else 0
    body = "".join(_head(heading)) + body if heading else body
    box = f"0 {-above} {WIDTH} {height + above:.0f}"
    return f'<svg viewBox="{box}" role="img" xmlns="http://www.w3.org/2000/svg">{body}</svg>'


def _head(heading: Heading) -> Iterator[str]:
    yield f"<style>{STYLE}</style>"
    yield _text(WIDTH / 2, 18 - heading.height, heading.title, "middle", ' font-weight="600"')
    for place, (name, colour) in enumerate(heading.legend):
        row, column = divmod(place, COLUMNS)
        x, y = LEFT + (WIDTH - LEFT) / COLUMNS * column, 38 - heading.height + 16 * row
        yield f'<rect x="{x:.1f}" y="{y - 9:.1f}" width="10" height="10" fill="{colour}"/>'
        yield _text(x + 15, y, name, "start")


def _axes(x: Scale, y: Scale, height: int) -> Iterator[str]:
    bottom = height - BOTTOM
    for tick in x.ticks():
        at = x(tick)
        yield f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{bottom}" class="grid"/>'
        yield _text(at, bottom + 15, f"{tick:g}", "middle")
    for tick in y.ticks():
        at = y(tick)
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>'
        yield _text(LEFT - 6, at + 4, f"{tick:g}", "end")
    yield _text((LEFT + WIDTH) / 2, height - 8, x.axis.title, "middle")
    middle = (TOP + bottom) / 2
    yield _text(13, middle, y.axis.title, "middle", f' transform="rotate(-90 13 {middle:.0f})"')


def _curve(line: Line, x: Scale, y: Scale) -> str:
    places = [(x(across), y(up)) for across, up in line.points]
    dash = ' stroke-dasharray="5 4"' if line.dashed else ""
    title = f"<title>{escape(line.name)}</title>"
    path = " ".join(f"{across:.1f},{up:.1f}" for across, up in places)
    dots = "".join(f'<circle cx="{across:.1f}" cy="{up:.1f}" r="3.5" fill="{line.colour}"/>' for across, up in places)
    return (
        f'<g>{title}<polyline points="{path}" fill="none" stroke="{line.colour}" stroke-width="2"{dash}/>'
        f"{dots if line.dots else ''}</g>"
    )


@dataclass(frozen=True)
class Bar:
    """A row: pieces from `start` on, one after another."""

    label: str
    start: float
    pieces: Sequence[tuple[str, float, str]]  # name, length, colour


def bars(
    rows: Sequence[Bar], across: Axis, thickness: float = 14, left: float = 150, heading: Heading | None = None
) -> str:
    """Rows from top to bottom over one axis."""
    ends = [row.start + sum(length for _, length, _ in row.pieces) for row in rows]
    x = Scale(ends, across, left, WIDTH - RIGHT)
    bottom = TOP + thickness * len(rows)
    parts = []
    for tick in x.ticks():
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="{TOP}" y2="{bottom:.0f}" class="grid"/>')
        parts.append(_text(x(tick), bottom + 15, f"{tick:g}", "middle"))
    parts.append(_text((left + WIDTH) / 2, bottom + 34, across.title, "middle"))
    for place, row in enumerate(rows):
        parts += _row(row, x, TOP + thickness * place, thickness)
    return _svg("".join(parts), bottom + BOTTOM, heading)


def _row(row: Bar, x: Scale, top: float, thickness: float) -> Iterator[str]:
    if row.label:
        yield _text(x(0.0) - 6, top + thickness / 2 + 4, row.label, "end")
    at = row.start
    for name, length, colour in row.pieces:
        if length > 0:
            width = max(x(at + length) - x(at), 0.3)
            yield (
                f'<rect x="{x(at):.1f}" y="{top + 1:.1f}" width="{width:.1f}" height="{thickness - 2:.1f}" '
                f'fill="{colour}"><title>{escape(f"{name} {length:.4g}")}</title></rect>'
            )
        at += length


def _text(x: float, y: float, content: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(content)}</text>'
