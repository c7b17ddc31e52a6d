"""SVG drawings: scales, axes, and colour classes, which the theme of a page defines."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from html import escape

# Okabe and Ito's colours, which differ for any colour vision, and four more of the same kind.
LIGHT = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#c98600", "#3aa0dd", "#7b3fa0", "#8c6d31", "#444444", "#b2182b")
# The same hues, lighter: at least 4.5 to 1 against the dark theme's cards.
DARK = ("#5ab4f0", "#ff9a55", "#35d0a2", "#eaa3cd", "#ffc44d", "#9ad9ff", "#c79bea", "#d3b47c", "#c3ccd5", "#ff8f86")

_LIGHT_TONES = {"ink": "#1d2733", "soft": "#5d6a78", "grid": "#e3e8ed", "axis": "#8a949e", "paper": "#ffffff"}
_DARK_TONES = {"ink": "#e6edf3", "soft": "#a3b1bf", "grid": "#2c3947", "axis": "#7d8b99", "paper": "#18212b"}

# Style of all elements. The page or the drawing itself defines `var(--ink)` and the other variables.
_RULES = """
text{{font:12px Inter,"Segoe UI","DejaVu Sans",sans-serif;fill:{soft}}}
text.title{{font-size:14px;font-weight:600;fill:{ink}}}
text.label{{font-size:11px;fill:{ink}}}
text.halo{{stroke:{paper};stroke-width:3px;paint-order:stroke;stroke-linejoin:round}}
text.inside{{fill:{paper};font-weight:600}}
.grid{{stroke:{grid};stroke-width:1}} .axis{{stroke:{axis};stroke-width:1}}
.line{{fill:none;stroke:currentColor;stroke-width:2;stroke-linejoin:round}}
.dot{{fill:currentColor}} .bar{{fill:currentColor}} .hit{{fill:transparent}}
.published{{stroke:{ink};stroke-width:1.4;fill:none;stroke-dasharray:5 4}}
.band{{fill:{grid};fill-opacity:.6}} .diamond{{fill:{paper};stroke:currentColor;stroke-width:2}}
.ring{{fill:{paper};stroke:currentColor;stroke-width:2}} .edge{{stroke:{axis};stroke-width:1;stroke-dasharray:4 3}}
.tick{{stroke:{ink};stroke-width:2.5}} .cell{{stroke:{paper}}}
"""


def page_rules() -> str:
    """Returns the style of drawings in a page that defines --ink, --soft, --grid, --axis and --paper in both themes."""
    tones = {name: f"var(--{name})" for name in _LIGHT_TONES}
    colours = "".join(f".s{index}{{color:var(--s{index})}}" for index in range(len(LIGHT)))
    return (
        f":root{{{_variables(_LIGHT_TONES, LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{:root{{{_variables(_DARK_TONES, DARK)}}}}}"
        + "".join(f"svg.chart {rule}" for rule in _split(_RULES.format(**tones)))
        + colours
    )


def _variables(tones: dict[str, str], colours: Iterable[str]) -> str:
    named = {**tones, **{f"s{index}": colour for index, colour in enumerate(colours)}}
    return "".join(f"--{name}:{value};" for name, value in named.items())


def _own_rules() -> str:
    """Returns the style of a separate drawing: the light theme, as in viewers and papers."""
    colours = "".join(f".s{index}{{color:{colour}}}" for index, colour in enumerate(LIGHT))
    return "".join(_split(_RULES.format(**_LIGHT_TONES))) + colours


def _split(rules: str) -> list[str]:
    return [f"{rule.strip()}}}" for rule in rules.replace("\n", " ").split("}") if rule.strip()]


def colour_class(index: int) -> str:
    return f"s{index % len(LIGHT)}"


def number(value: float) -> str:
    """Prints a coordinate to a tenth of a pixel, with the same bytes on every machine."""
    text = f"{value:.1f}"
    return text.removesuffix(".0")


def drawing(width: float, height: float, label: str, content: Iterable[str], standalone: bool = False) -> str:
    """Returns a whole drawing. `label` describes it in words."""
    body = "".join(content)
    text = escape(label, quote=True)
    if standalone:
        background = f'<rect width="{number(width)}" height="{number(height)}" fill="{_LIGHT_TONES["paper"]}"/>'
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{number(width)}" height="{number(height)}" '
            f'viewBox="0 0 {number(width)} {number(height)}" role="img" aria-label="{text}">'
            f"<style>{_own_rules()}</style>{background}{body}</svg>\n"
        )
    size = f'viewBox="0 0 {number(width)} {number(height)}"'
    return f'<svg class="chart" {size} role="img" aria-label="{text}">{body}</svg>'


def text(x: float, y: float, words: str, *, anchor: str = "start", kind: str = "", turned: bool = False) -> str:
    turn = f' transform="rotate(-90 {number(x)} {number(y)})"' if turned else ""
    named = f' class="{kind}"' if kind else ""
    place = f'x="{number(x)}" y="{number(y)}"'
    return f'<text {place} text-anchor="{anchor}"{named}{turn}>{escape(words)}</text>'


def line(x1: float, y1: float, x2: float, y2: float, kind: str, more: str = "") -> str:
    ends = f'x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}"'
    return f'<line {ends} class="{kind}"{more}/>'


def attribute(words: str) -> str:
    return escape(words, quote=True)


def tip(words: str) -> str:
    """Returns the attributes of a tooltip, for the mouse and for screen readers."""
    return f' data-tip="{escape(words, quote=True)}"'


def diamond(x: float, y: float, half: float = 5.0, more: str = "") -> str:
    corners = ((x, y - half), (x + half, y), (x, y + half), (x - half, y))
    points = " ".join(f"{number(a)},{number(b)}" for a, b in corners)
    return f'<polygon points="{points}" class="diamond"{more}/>'


@dataclass(frozen=True)
class Scale:
    """Converts values to pixels on an axis from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        low, high, here = (self._even(one) for one in (self.low, self.high, value))
        return self.start + (self.end - self.start) * ((here - low) / (high - low) if high > low else 0.5)

    def _even(self, value: float) -> float:
        return math.log2(value) if self.log else value

    def ticks(self, about: int = 5) -> list[float]:
        if self.log:
            return self._log_ticks(about)
        step = nice_step((self.high - self.low) / about)
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(index * step, 12) for index in range(first, last + 1)]

    def _log_ticks(self, about: int) -> list[float]:
        found = [
            base * 10.0**power
            for power in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
            for base in (1, 2, 5)
            if self.low * (1 - 1e-9) <= base * 10.0**power <= self.high * (1 + 1e-9)
        ]
        tens = [value for value in found if f"{value:e}".startswith("1.0")]
        return tens if len(found) > 2 * about and len(tens) > 1 else found


def nice_step(rough: float) -> float:
    """Returns the next larger value of 1, 2, 2.5 or 5 times a power of ten."""
    if rough <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(rough))
    return next(base * power for base in (1, 2, 2.5, 5, 10) if base * power >= rough * (1 - 1e-9))


def from_zero(values: Iterable[float], start: float, end: float) -> Scale:
    """Returns a linear scale from 0 to a round value above all values."""
    top = max(values, default=1.0) or 1.0
    step = nice_step(top / 5)
    return Scale(0.0, step * math.ceil(top * 1.02 / step), start, end)


@dataclass(frozen=True)
class Box:
    """The area of a chart's data within its drawing, in pixels."""

    left: float
    top: float
    right: float
    bottom: float


def y_axis(box: Box, scale: Scale, title: str) -> list[str]:
    """Draws lines across the data with their values. The title stands above the axis."""
    parts = [text(4, box.top - 12, title)]
    for value in scale.ticks():
        y = scale.at(value)
        parts.append(line(box.left, y, box.right, y, "grid"))
        parts.append(text(box.left - 7, y + 4, short(value), anchor="end"))
    return parts


def x_axis(box: Box, scale: Scale, ticks: list[float], title: str, named: Callable[[float], str]) -> list[str]:
    parts = [line(box.left, box.bottom, box.right, box.bottom, "axis")]
    for value in ticks:
        x = scale.at(value)
        parts.append(line(x, box.bottom, x, box.bottom + 4, "axis"))
        parts.append(text(x, box.bottom + 18, named(value), anchor="middle"))
    parts.append(text((box.left + box.right) / 2, box.bottom + 36, title, anchor="middle"))
    return parts


def short(value: float) -> str:
    """Prints a number for an axis, with commas: `1,500`, `0.5`."""
    return f"{value:,.0f}" if value == round(value) else f"{value:,.3f}".rstrip("0")


def bytes_name(size: float) -> str:
    """Prints a size as perftest's options and the papers do: `64K`."""
    for unit, factor in (("M", 1 << 20), ("K", 1 << 10)):
        if size >= factor:
            return f"{size / factor:g}{unit}"
    return f"{size:g}"
