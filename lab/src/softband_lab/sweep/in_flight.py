"""The number of messages of a bandwidth measurement: enough to make the start of the transfer negligible."""

from __future__ import annotations

import math
import re

# Data rate of one lane in bytes per second, by link rate (IBTA 1.5, volume 2: FDR and later have 64b/66b).
_LANE_BYTES_PER_SECOND = {
    "SDR": 0.25e9, "DDR": 0.5e9, "QDR": 1e9, "FDR10": 1.25e9, "FDR": 1.705e9, "EDR": 3.125e9, "HDR": 6.25e9,
    "NDR": 12.5e9, "XDR": 25e9,
}  # fmt: skip
_SECONDS_PER_METRE = 5e-9
# Upper bound of the delay in hosts, HCAs and switches, of a message and its acknowledgement.
_SECONDS_AT_THE_ENDS = 10e-6
# perftest's default number of outstanding messages.
_UNDER_WAY = 128
# The start takes one part in so many of the whole: a tenth of the least loss that counts.
_PARTS = 1000
_LEAST = 1000
# Options that set the length of a test. `-a` uses the same number of messages for each size.
_LENGTH_OPTIONS = ("-n", "--iters", "-D", "--duration", "--run_infinitely")


def link_bytes_per_second(shown: str) -> float:
    """Returns the rate of the fastest link that `softband fabric show` prints, or 0 if it prints none."""
    rates = [
        int(width) * _LANE_BYTES_PER_SECOND[name]
        for width, name in re.findall(r"\b(\d+)X (\w+)", shown)
        if name in _LANE_BYTES_PER_SECOND
    ]
    rates += [float(rate) * 1e9 / 8 for rate in re.findall(r"\b(\d+)GbE\b", shown)]
    return max(rates, default=0.0)


def messages_needed(bytes_per_second: float, metres: float, size_bytes: int) -> int:
    """Returns a thousand times the messages in flight, in whole thousands.

    The start costs a round trip: of N messages, the share of those in flight at once.
    """
    in_flight = bytes_per_second * (2 * metres * _SECONDS_PER_METRE + _SECONDS_AT_THE_ENDS)
    messages = min(in_flight / size_bytes, _UNDER_WAY) * _PARTS
    return max(_LEAST, math.ceil(messages / 1000) * 1000)


def says_how_many(command: str) -> bool:
    words = [word.partition("=")[0] for word in command.split()]
    return any(word in _LENGTH_OPTIONS or re.fullmatch(r"-[nD]\d+", word) for word in words)


def number_of(command: str) -> int | None:
    """Returns the number of messages in a command, or None if it sets a time or nothing."""
    words = command.split()
    for word, value in zip(words, [*words[1:], ""], strict=True):
        if word in ("-n", "--iters") and value.isdigit():
            return int(value)
        attached = re.fullmatch(r"-n(\d+)|--iters=(\d+)", word)
        if attached:
            return int(attached[1] or attached[2])
    return None


def is_bandwidth_test(command: str) -> bool:
    """Returns whether a command is a bandwidth test of perftest, which accepts `-n`."""
    words = command.split()
    return bool(words) and re.fullmatch(r"(.*/)?(ib|raw_ethernet)_\w+_bw", words[0]) is not None
