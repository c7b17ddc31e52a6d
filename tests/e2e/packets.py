"""The packets of a capture, read without Softband's code: pcap, ERF and the headers of IBTA chapters 7 to 9."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC_NANOSECONDS, LINKTYPE_ERF, ERF_INFINIBAND = 0xA1B23C4D, 197, 21
NEXT_GRH = 3


@dataclass(frozen=True)
class Packet:
    """A packet of InfiniBand, with the fields that tests ask for."""

    nanoseconds: int
    image: bytes
    slid: int
    dlid: int
    lane: int
    opcode: int
    psn: int
    has_route: bool

    @property
    def transport(self) -> bytes:
        """The bytes after the BTH: extended headers, payload, padding and check values."""
        return self.image[60 if self.has_route else 20 :]

    def check(self) -> None:
        """Fails if lengths or check values contradict the bytes."""
        words = struct.unpack_from(">H", self.image, 4)[0] & 0x7FF
        assert words * 4 + 2 == len(self.image), "the LRH states the length"
        masked = bytearray(self.image[:-6])
        masked[0] |= 0xF0
        bth = 8
        if self.has_route:
            # Routers replace the LRH, and change traffic class, flow label and hop limit (IBTA 7.8.1).
            masked[:8] = b"\xff" * 8
            masked[8] |= 0x0F
            masked[9:12] = b"\xff" * 3
            masked[15] = 0xFF
            bth = 48
        masked[bth + 4] = 0xFF
        assert struct.unpack_from("<I", self.image, len(self.image) - 6)[0] == zlib.crc32(masked)


def packet(nanoseconds: int, image: bytes) -> Packet:
    route, dlid, _, slid = struct.unpack_from(">HHHH", image)
    has_route = route & 3 == NEXT_GRH
    bth = 48 if has_route else 8
    psn = struct.unpack_from(">I", image, bth + 8)[0] & 0xFFFFFF
    return Packet(nanoseconds, image, slid, dlid, route >> 12, image[bth], psn, has_route)


def records(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yields the time and the bytes of each record of a pcap file."""
    data = path.read_bytes()
    magic, major, minor = struct.unpack_from("<IHH", data)
    assert (magic, major, minor) == (MAGIC_NANOSECONDS, 2, 4)
    at = 24
    while at < len(data):
        seconds, nanoseconds, kept, whole = struct.unpack_from("<IIII", data, at)
        assert kept == whole
        yield seconds * 1_000_000_000 + nanoseconds, data[at + 16 : at + 16 + kept]
        at += 16 + kept


def packets(path: Path) -> list[Packet]:
    """Returns the InfiniBand packets of a capture, after checks of each."""
    assert struct.unpack_from("<I", path.read_bytes(), 20)[0] == LINKTYPE_ERF
    found = []
    for nanoseconds, record in records(path):
        kind, _, length, _, wire = struct.unpack_from(">BBHHH", record, 8)
        assert (kind, length, wire) == (ERF_INFINIBAND, len(record), len(record) - 16)
        found.append(packet(nanoseconds, record[16:]))
        found[-1].check()
    return found
