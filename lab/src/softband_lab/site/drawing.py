"""Drawings of parts, each from the part's own values: boxes with their limits, and the ways between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape

from softband_lab.report.svg import line, text
from softband_lab.site.parts import Part

WIDTH, MARGIN, LINE, HEAD = 340.0, 10.0, 16.0, 22.0
_GAP = 34.0
# Characters of the widest line of a box.
_FITS = 50
_DELAY = "forward_latency"


@dataclass(frozen=True)
class Box:
    """A box with a name and lines below it. `way` names the limit on the way from the box above."""

    title: str
    lines: list[str] = field(default_factory=list)
    way: str = ""

    @property
    def height(self) -> float:
        return HEAD + LINE * len(self.lines) + 8.0


def part_drawing(part: Part) -> str:
    """Returns the drawing of a part as SVG. A screen reader hears the same words as the boxes have."""
    boxes = [Box(box.title, [_cut(words) for words in box.lines if words], box.way) for box in _BOXES[part.kind](part)]
    height = MARGIN * 2 + sum(box.height for box in boxes) + _GAP * (len(boxes) - 1)
    words = "; ".join(" ".join(filter(None, [box.way, f"{box.title}:", ", ".join(box.lines)])) for box in boxes)
    content, y = [], MARGIN
    for index, box in enumerate(boxes):
        if index:
            content.append(_way(y, box.way))
            y += _GAP
        content.append(_box(box, y))
        y += box.height
    return (
        f'<svg class="chart part" viewBox="0 0 {WIDTH:g} {height:g}" role="img">'
        f"<title>{escape(f'{part.kind} {part.name}: {words}')}</title>{''.join(content)}</svg>"
    )


def _box(box: Box, y: float) -> str:
    size = f'width="{WIDTH - 2 * MARGIN:g}" height="{box.height:g}"'
    frame = f'<rect x="{MARGIN:g}" y="{y:g}" {size} rx="6" class="box"/>'
    lines = [text(MARGIN + 10, y + HEAD + LINE * (index + 0.7), words) for index, words in enumerate(box.lines)]
    return frame + text(MARGIN + 10, y + 18, box.title, kind="title") + "".join(lines)


def _way(y: float, words: str) -> str:
    middle = MARGIN + 40
    arrows = f'<path d="M{middle - 4:g} {y + 7:g} l4 -6 4 6 M{middle - 4:g} {y + _GAP - 7:g} l4 6 4 -6" class="way"/>'
    return line(middle, y + 1, middle, y + _GAP - 1, "way") + arrows + text(middle + 14, y + _GAP / 2 + 4, words)


def _cut(words: str) -> str:
    return words if len(words) <= _FITS else f"{words[: _FITS - 1].rstrip(' ,')}…"


def _say(part: Part, words: str, *names: str) -> str:
    """Returns a line such as `delay 5 ns`, or "" if the part lacks the values. `{}` of `words` takes each value."""
    values = [part.get(name) for name in names]
    return words.format(*values) if all(values) else ""


def _rates(part: Part) -> list[str]:
    widths, speeds = part.get("widths"), part.get("speeds")
    return [
        f"{widths} at {speeds}" if widths and speeds else "",
        _say(part, "Ethernet: {}", "ethernet_rates"),
    ]


def _interface(part: Part) -> str:
    if part.get("interface") == "pci-x":
        return f"PCI-X {part.get('interface_clock')}"
    return f"PCI Express {part.get('interface_generation')}.0 x{part.get('interface_lanes')}"


def _lanes(part: Part) -> str:
    """The data lanes of the capability code: 1, 2, 4, 8 or 15."""
    lanes = {"1": "1 lane", "2": "2 lanes", "3": "4 lanes", "4": "8 lanes", "5": "15 lanes"}
    return lanes.get(part.get("vl_cap"), "")


def _hca(part: Part) -> list[Box]:
    ports = part.get("ports")
    return [
        Box("Bus interface", [_interface(part), _say(part, "{} reads under way", "outstanding_reads")]),
        Box(
            "Processing",
            [
                _say(part, "{} engines for messages", "processing_engines") or "one engine for messages",
                _say(part, "transmit {}", "transmit_processing"),
                _say(part, "receive {}", "receive_processing"),
            ],
            _say(part, "doorbell {}", "doorbell"),
        ),
        Box(
            "Staging",
            [
                _say(part, "{} packets", "transmit_staging_packets"),
                _say(part, "{}", "transmit_staging"),
                _say(part, "MTU up to {}", "mtu_max"),
            ],
        ),
        Box(
            f"{ports} port{'' if ports == '1' else 's'}",
            [
                *_rates(part),
                _say(part, "receive buffer {}", "port_buffer") + (f", {_lanes(part)}" if _lanes(part) else ""),
                _say(part, "Ethernet buffer {}", "ethernet_buffer"),
            ],
        ),
    ]


def _nic(part: Part) -> list[Box]:
    return [
        Box("Bus interface", [_interface(part), _say(part, "{} reads under way", "outstanding_reads")]),
        Box("Rings", [_say(part, "transmit {} frames, receive {} frames", "transmit_ring", "receive_ring")]),
        Box(
            f"{part.get('ports')} ports",
            [*_rates(part), _say(part, "MTU up to {}", "mtu_max"), _say(part, "receive buffer {}", "port_buffer")],
        ),
    ]


def _switch(part: Part) -> list[Box]:
    buffer = part.get("port_buffer")
    lanes = _lanes(part)
    delays = [row for row in part.parameters if row.name.startswith(_DELAY)]
    return [
        Box(
            f"{part.get('ports')} ports",
            [
                *_rates(part),
                f"receive buffer {buffer}" + (f", shared by {lanes}" if lanes else "") if buffer else "",
                _say(part, "receive buffer {}", "ethernet_buffer"),
            ],
        ),
        Box(
            "Crossbar",
            [" ".join(["forwards in", delay.shown, *_at_speed(delay.name)]) for delay in delays],
            _say(part, "credits return in {}", "credit_return")
            or _say(part, "pause takes effect in {}", "pause_response"),
        ),
    ]


def _at_speed(name: str) -> list[str]:
    """Returns the speed of a delay's name: `forward_latency_edr` is at EDR."""
    speed = name.removeprefix(_DELAY).strip("_").upper()
    return ["at", speed] if speed else []


def _cable(part: Part) -> list[Box]:
    length = part.get("length") or "the fabric file gives its length"
    top = " ".join(filter(None, [part.get("width_max"), part.get("speed_max")])) or part.get("rate_max")
    errors = "no bit errors, unless the fabric file has some"
    return [
        Box("One end", [f"up to {top}" if top else "", _say(part, "both converters {}", "converter_delay")]),
        Box("Other end", [part.get("medium"), _say(part, "{} of delay", "propagation"), errors], length),
    ]


def _bus(part: Part) -> list[Box]:
    if part.get("kind") == "bridge":
        return [
            Box("Host", []),
            Box("Bridge", [_say(part, "{} both directions together", "rate"), _say(part, "offers {}", "slot")],
                _say(part, "delay {}", "delay")),
        ]  # fmt: skip
    width = _say(part, "{} lanes of generation {}", "lanes", "generation") or _say(part, "{} at {}", "width", "clock")
    shared = "one bus for both directions" if part.get("kind") == "pci-x" else "each direction by itself"
    pieces = [
        _say(part, "writes of at most {}", "max_payload") or _say(part, "write bursts of {}", "write_burst"),
        _say(part, "read completions of at most {}", "completion"),
        _say(part, "{} of it for link packets", "link_layer_share"),
    ]
    return [Box("Host", []), Box("Slot", [shared, *pieces], width)]


def _host(part: Part) -> list[Box]:
    memory = [
        _say(part, "read {}, write {}", "memory_read_latency", "memory_write_latency"),
        _say(part, "at most {} together", "memory_rate"),
        _say(part, "reads at most {}", "memory_read_rate"),
        _say(part, "writes at most {}", "memory_write_rate"),
    ]
    work = [
        part.get("cpu"),
        _say(part, "post {}, poll {}", "post_send", "poll_cq"),
        _say(part, "copies at {}", "copy_rate"),
    ]
    return [
        Box("Processors", work),
        Box("Memory", memory),
        Box("Bus", [part.get("bus"), _say(part, "read requests of {}", "read_request")]),
    ]


def _kernel(part: Part) -> list[Box]:
    return [
        Box("Sockets", [_say(part, "receive buffer {} to {}", "receive_buffer", "receive_buffer_max"),
                        _say(part, "send buffer {} to {}", "send_buffer", "send_buffer_max")]),
        Box("TCP", [_say(part, "{} control of congestion", "congestion_control"),
                    _say(part, "first window {} segments", "initial_window"),
                    _say(part, "retransmits after {} at least", "rto_min")]),
    ]  # fmt: skip


def _limit(part: Part) -> list[Box]:
    return [Box("Longest cable", [f"{row.name.replace('_', ' ').upper()}: {row.shown}" for row in part.parameters])]


_BOXES: dict[str, Callable[[Part], list[Box]]] = {
    "hca": _hca, "nic": _nic, "switch": _switch, "cable": _cable, "bus": _bus, "host": _host, "kernel": _kernel,
    "limit": _limit,
}  # fmt: skip
