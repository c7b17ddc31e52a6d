"""How many messages a bandwidth is measured with: so many that the start of the transfer costs nothing worth a word."""

from __future__ import annotations

import math
import re

# Data of one lane, in bytes a second, by link rate (IBTA 1.5, volume 2: FDR and later have 64b/66b).
_LANE_BYTES_PER_SECOND = {
    "SDR": 0.25e9, "DDR": 0.5e9, "QDR": 1e9, "FDR10": 1.25e9, "FDR": 1.705e9, "EDR": 3.125e9, "HDR": 6.25e9,
    "NDR": 12.5e9, "XDR": 25e9,
}  # fmt: skip
_SECONDS_PER_METRE = 5e-9
# What hosts, HCAs and switches take of a message's way and of its acknowledgement's: more than the slowest part's.
_SECONDS_AT_THE_ENDS = 10e-6
# perftest's own default: it keeps no more than this many messages under way.
_UNDER_WAY = 128
# The start takes one part in so many of the whole: a tenth of what counts as a loss.
_PARTS = 1000
_LEAST = 1000
# What says how long a test lasts; `-a` goes over all sizes, each with as many messages.
_LENGTH_OPTIONS = ("-n", "--iters", "-D", "--duration", "--run_infinitely")


def link_bytes_per_second(shown: str) -> float:
    """The fastest link that `softband fabric show` prints; 0 where it prints none."""
    rates = [
        int(width) * _LANE_BYTES_PER_SECOND[name]
        for width, name in re.findall(r"\b(\d+)X (\w+)", shown)
        if name in _LANE_BYTES_PER_SECOND
    ]
    rates += [float(rate) * 1e9 / 8 for rate in re.findall(r"\b(\d+)GbE\b", shown)]
    return max(rates, default=0.0)


def messages_needed(bytes_per_second: float, metres: float, size_bytes: int) -> int:
    """A thousand times what the link holds in flight, in whole thousands of messages.

    What is lost at the start is a round trip: of N messages it is what is in flight at once, over N.
    """
    in_flight = bytes_per_second * (2 * metres * _SECONDS_PER_METRE + _SECONDS_AT_THE_ENDS)
    messages = min(in_flight / size_bytes, _UNDER_WAY) * _PARTS
    return max(_LEAST, math.ceil(messages / 1000) * 1000)


def says_how_many(command: str) -> bool:
    words = [word.partition("=")[0] for word in command.split()]
    return any(word in _LENGTH_OPTIONS or re.fullmatch(r"-[nD]\d+", word) for word in words)


def number_of(command: str) -> int | None:
    """The messages that a command counts; None where it goes by time, or says nothing."""
    words = command.split()
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word in ("-n", "--iters") and value.isdigit():
            return int(value)
        attached = re.fullmatch(r"-n(\d+)|--iters=(\d+)", word)
        if attached:
            return int(attached[1] or attached[2])
    return None


def is_bandwidth_test(command: str) -> bool:
    """Whether it is one of perftest's, whose messages can be counted with `-n`."""
    words = command.split()
    return bool(words) and re.fullmatch(r"(.*/)?(ib|raw_ethernet)_\w+_bw", words[0]) is not None
