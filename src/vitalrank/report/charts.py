"""Charts as SVG text. Each is 360 units wide, so that its letters stay readable on a phone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from vitalrank.report.scales import Scale, scale_for, short

WIDTH, HEIGHT = 360, 240
LEFT, RIGHT, TOP, BOTTOM = 52, 58, 10, 38  # margins: values, names of the lines, air, epochs
_POINTS = 60  # of a line that can be pointed at
_COLOURS = 8  # that the style sheet knows
_GAP = 12  # between two names at the right
_NAME = 9  # letters of a name that fit there


@dataclass(frozen=True)
class Line:
    """A curve; ``style`` is the number of its entry."""

    name: str
    style: int
    points: Sequence[tuple[float, float]]
    faint: bool = False  # a further seed
    dashed: bool = False
    mark: int | None = None  # position of a point to stress


def line_chart(
    lines: Sequence[Line],
    label: str,
    x: str,
    y: str,
    *,
    log_x: bool = False,
    log_y: bool = False,
    zero: bool = False,
) -> str:
    """Curves with axes, names at their right ends and values to point at; empty without points.

    Examples
    --------
    >>> line_chart([Line("a", 0, [(1, 0.5), (2, 0.7)])], "Quality", "epoch", "NDCG").count("<circle")
    2
    """
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    points = [point for line in drawn for point in line.points]
    across = _tight([point[0] for point in points], log_x)
    up = scale_for([point[1] for point in points], HEIGHT - BOTTOM, TOP, log_y, zero)
    parts = [_axes(across, up, x, y)]
    parts += [_path(line, across, up) for line in sorted(drawn, key=lambda line: not line.faint)]
    parts += [_targets(line, across, up, x) for line in drawn if not line.faint]
    named = [line for line in drawn if not line.faint and not line.dashed]
    parts += _names(named, up) if len(named) > 1 else []
    return svg(label, HEIGHT, "".join(parts))


def stacked_bars(rows: Sequence[tuple[str, Sequence[float]]], parts: Sequence[str], label: str, percent: bool) -> str:
    """One bar per row, cut into parts; lengths are comparable between rows. A row alone needs no name.

    Examples
    --------
    >>> stacked_bars([("a", [0.5, 0.3, 0.2])], ["head", "middle", "tail"], "Places", percent=True).count("<rect")
    3
    """
    if not rows:
        return ""
    left, step = 74 if any(name for name, _ in rows) else 2, 26
    across = Scale(0.0, max(sum(values) for _, values in rows) or 1.0, left, WIDTH - 48)
    drawn = []
    for number, (name, values) in enumerate(rows):
        top, total, begin = TOP + number * step, sum(values), 0.0
        drawn.append(f'<text class="name" x="{left - 8}" y="{top + 13}" text-anchor="end">{_cut(name, 11)}</text>')
        for part, value in zip(parts, values, strict=True):
            tip = f"{name}{', ' if name else ''}{part}: {_amount(value, percent)}"
            if total and not percent:
                tip += f" ({100 * value / total:.0f} %)"
            drawn.append(_segment(across(begin), across(begin + value), top, part, tip, value / total if total else 0))
            begin += value
        amount = "" if percent else _amount(total, percent)
        drawn.append(f'<text class="value" x="{across(total) + 6}" y="{top + 13}">{amount}</text>')
    return svg(label, 2 * TOP + len(rows) * step, "".join(drawn))


def scatter(points: Sequence[tuple[float, float]], classes: Sequence[int], tips: Sequence[str], label: str) -> str:
    """Points coloured by class. Axes mean nothing here and are left out; the outermost points lie on the edge.

    Examples
    --------
    >>> scatter([(0, 0), (1, 1)], [0, 2], ["a", "b"], "Items").count("<circle")
    2
    """
    if not points:
        return ""
    across = _core([point[0] for point in points], 8, WIDTH - 8)
    up = _core([point[1] for point in points], HEIGHT - 8, 8)
    dots = "".join(
        f'<circle class="dot c{kind}" cx="{across(across.inside(x))}" cy="{up(up.inside(y))}" r="3" '
        f'data-tip="{escape(tip)}"/>'
        for (x, y), kind, tip in zip(points, classes, tips, strict=True)
    )
    return svg(label, HEIGHT, dots)


def style(number: int) -> str:
    """Classes of an entry: its own, its colour, and another stroke once the colours are used up.

    Examples
    --------
    >>> style(1), style(9)
    ('e1 s1', 'e9 s1 again')
    """
    return f"e{number} s{number % _COLOURS}" + (" again" if number >= _COLOURS else "")


def svg(label: str, height: float, inside: str) -> str:
    """The frame of a chart."""
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(label)}">{inside}</svg>'


# ---------------------------------------------------------------------------------------------------- pieces


def _axes(across: Scale, up: Scale, x: str, y: str) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = []
    for value in up.ticks():
        at = up(value)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 6}" y="{at + 3.5}" text-anchor="end">{short(value)}</text>')
    for value in across.ticks(4):
        at = across(value)
        parts.append(f'<text class="tick" x="{at}" y="{bottom + 14}" text-anchor="middle">{short(value)}</text>')
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    middle = (LEFT + right) / 2
    parts.append(f'<text class="axis-name" x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x)}</text>')
    turned = f'transform="rotate(-90 11 {(TOP + bottom) / 2})"'
    middle = (TOP + bottom) / 2
    parts.append(f'<text class="axis-name" x="11" y="{middle}" text-anchor="middle" {turned}>{escape(y)}</text>')
    return "".join(parts)


def _path(line: Line, across: Scale, up: Scale) -> str:
    places = " ".join(f"{across(x)},{up(y)}" for x, y in line.points)
    kinds = ["line", style(line.style), *(["faint"] if line.faint else []), *(["dashed"] if line.dashed else [])]
    drawn = f'<polyline class="{" ".join(kinds)}" points="{places}"/>'
    if line.mark is not None and not line.faint:
        x, y = line.points[line.mark]
        drawn += f'<path class="mark {style(line.style)}" d="M{across(x)} {up(y)}h0"/>'
    return drawn


def _targets(line: Line, across: Scale, up: Scale, x_name: str) -> str:
    """Invisible circles to point at; a line with many points has some of them."""
    step = max(1, -(-len(line.points) // _POINTS))
    return "".join(
        f'<circle class="target {style(line.style)}" cx="{across(x)}" cy="{up(y)}" r="6" '
        f'data-tip="{escape(f"{line.name}, {x_name} {short(x)}: {y:.4g}")}"/>'
        for x, y in line.points[::step]
    )


def _names(lines: Sequence[Line], up: Scale) -> list[str]:
    """Names beside the last points, moved apart where they would touch."""
    ends = sorted(((up(line.points[-1][1]), line) for line in lines), key=lambda pair: pair[0])
    base = HEIGHT - BOTTOM
    at = TOP - _GAP + 4.0
    places = []
    for end, _ in ends:
        at = max(end, at + _GAP)
        places.append(at)
    ceiling = float(base)
    for number in range(len(places) - 1, -1, -1):  # push back what fell below the chart
        places[number] = min(places[number], ceiling)
        ceiling = places[number] - _GAP
    return [
        f'<text class="end {style(line.style)}" x="{WIDTH - RIGHT + 5}" y="{round(place + 3.5, 1)}">'
        f"{_cut(line.name)}</text>"
        for place, (_, line) in zip(places, ends, strict=True)
    ]


def _segment(begin: float, end: float, top: float, part: str, tip: str, share: float) -> str:
    width = round(max(end - begin, 0.0), 1)
    kind = escape(part)
    drawn = f'<rect class="part {kind}" x="{begin}" y="{top}" width="{width}" height="18" data-tip="{escape(tip)}"/>'
    if width > 34:
        middle = round((begin + end) / 2, 1)
        drawn += f'<text class="inside {kind}" x="{middle}" y="{top + 13}" text-anchor="middle">{share:.0%}</text>'
    return drawn


def _tight(values: Sequence[float], log: bool = False) -> Scale:
    """From the left edge to the right one, without a margin: time begins where the axis does."""
    return Scale(min(values), max(values), LEFT, WIDTH - RIGHT, log)


def _core(values: Sequence[float], start: float, stop: float) -> Scale:
    """A scale over all but the outermost values, which would squeeze the rest together."""
    ranked = sorted(values)
    trim = len(ranked) // 50
    return scale_for(ranked[trim : len(ranked) - trim], start, stop)


def _amount(value: float, percent: bool) -> str:
    return f"{100 * value:.0f} %" if percent else f"{value:.4f}"


def _cut(name: str, most: int = _NAME) -> str:
    return escape(name if len(name) <= most else name[: most - 1] + "…")
