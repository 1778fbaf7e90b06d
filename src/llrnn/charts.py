"""Small charts as inline SVG: no library, no network, readable in any browser."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_COLOURS = ("#1b6ca8", "#c8553d", "#5a8f29", "#7d5ba6")


def line_chart(
    curves: Mapping[str, Sequence[float]], *, x_label: str, y_label: str, width: int = 640, height: int = 320
) -> str:
    """One line for each named sequence, at x = 1, 2, 3, ...; the name stands in the legend."""
    left, right, top, bottom = 60, 20, 20, 50
    values = [value for curve in curves.values() for value in curve]
    low, high = min(values), max(values)
    margin = 0.05 * (high - low) or 0.5
    low, high = low - margin, high + margin
    longest = max(len(curve) for curve in curves.values())

    def x(step: int) -> float:
        return left + (width - left - right) * (step / max(longest - 1, 1))

    def y(value: float) -> float:
        return top + (height - top - bottom) * (high - value) / (high - low)

    parts = [_text(width / 2, height - 10, x_label, anchor="middle")]
    parts.append(
        f'<text transform="translate(16 {height / 2:.0f}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>'
    )
    for tick in _ticks(low, high):
        parts.append(f'<line x1="{left}" x2="{width - right}" y1="{y(tick):.1f}" y2="{y(tick):.1f}" class="grid"/>')
        parts.append(_text(left - 8, y(tick) + 4, f"{tick:g}", anchor="end"))
    for step in range(longest):
        parts.append(_text(x(step), height - bottom + 18, str(step + 1), anchor="middle"))
    for index, (name, curve) in enumerate(curves.items()):
        colour = _COLOURS[index % len(_COLOURS)]
        points = " ".join(f"{x(step):.1f},{y(value):.1f}" for step, value in enumerate(curve))
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x(s):.1f}" cy="{y(v):.1f}" r="3.5" fill="{colour}"/>' for s, v in enumerate(curve)]
        parts.append(f'<rect x="{width - 250}" y="{top + 18 * index}" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(width - 232, top + 18 * index + 10, name))
    return _svg(width, height, parts)


def bar_chart(bars: Sequence[tuple[str, float]], *, x_label: str, width: int = 640) -> str:
    """One horizontal bar for each (name, value): to the right of the middle for, to the left against."""
    row, top, left = 24, 10, 210
    height = top + row * len(bars) + 40
    largest = max((abs(value) for _, value in bars), default=1.0) or 1.0
    # 70 units are kept free on either side, for the figure that stands at the end of each bar
    middle, half = (left + width) / 2, (width - left) / 2 - 70
    parts = [f'<line x1="{middle}" x2="{middle}" y1="{top}" y2="{top + row * len(bars)}" class="axis"/>']
    for index, (name, value) in enumerate(bars):
        y = top + row * index
        length = half * abs(value) / largest
        start = middle if value >= 0 else middle - length
        colour = _COLOURS[0] if value >= 0 else _COLOURS[1]
        parts.append(_text(left - 10, y + 16, name, anchor="end"))
        parts.append(f'<rect x="{start:.1f}" y="{y + 4}" width="{max(length, 0.5):.1f}" height="15" fill="{colour}"/>')
        beyond = middle + length + 6 if value >= 0 else middle - length - 6
        parts.append(_text(beyond, y + 16, f"{value:+.3f}", anchor="start" if value >= 0 else "end"))
    parts.append(_text(middle, height - 10, x_label, anchor="middle"))
    return _svg(width, height, parts)


def _ticks(low: float, high: float) -> list[float]:
    """Round numbers between low and high, four to ten of them."""
    step = 10.0 ** len(str(int(high - low)))
    while (high - low) / step < 4:
        step /= 2 if str(step)[0] in "1" else 2.5 if str(step)[0] == "5" else 2
    first = int(low / step) - 1
    return [
        round(tick * step, 10)
        for tick in range(first, first + int((high - low) / step) + 4)
        if low <= tick * step <= high
    ]


def _text(x: float, y: float, text: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(width: int, height: int, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(parts)}</svg>'
