"""Two hosts write and read memory with Mooncake's transfer engine over RDMA, and check every byte.

    mooncake_pair.py        on the first host
    mooncake_pair.py HOST   on the second one
"""

from __future__ import annotations

import ctypes
import json
import socket
import sys

from mooncake.engine import TransferEngine

PORT = 7711
SIZE = 4 << 20
LENGTHS = (1, 4096, 65537, SIZE)


class Memory:
    """A buffer that the engine has registered."""

    def __init__(self, engine: TransferEngine) -> None:
        self.room = ctypes.create_string_buffer(SIZE)
        self.address = ctypes.addressof(self.room)
        assert engine.register_memory(self.address, SIZE) == 0, "the memory is not registered"

    def fill(self, seed: int) -> None:
        self.room.raw = pattern(seed)

    def begins_with(self, seed: int, length: int) -> bool:
        return self.room.raw[:length] == pattern(seed)[:length]


def pattern(seed: int) -> bytes:
    """Returns bytes that depend on the seed and on the place."""
    piece = bytes((seed * 37 + place * 11 + (place >> 8)) & 0xFF for place in range(1 << 16))
    return b"".join(bytes(byte ^ turn for byte in piece) for turn in range(SIZE >> 16))


def engine_on(host: str) -> TransferEngine:
    engine = TransferEngine()
    assert engine.initialize(host, "P2PHANDSHAKE", "rdma", "") == 0, "no transfer engine"
    return engine


def say(peer: socket.socket, what: object) -> None:
    peer.sendall(json.dumps(what).encode() + b"\n")


def hear(lines: object) -> object:
    return json.loads(next(iter(lines)))  # type: ignore[call-overload]


def serve() -> None:
    engine = engine_on(socket.gethostname())
    memory = Memory(engine)
    listener = socket.create_server(("", PORT))
    peer, _ = listener.accept()
    lines = peer.makefile()
    say(peer, {"session": f"{socket.gethostname()}:{engine.get_rpc_port()}", "address": memory.address})
    for turn, length in enumerate(LENGTHS):
        assert hear(lines) == "written"
        assert memory.begins_with(turn + 1, length), f"{length} bytes were written and did not arrive"
        memory.fill(turn + 101)
        say(peer, "filled")
    assert hear(lines) == "read"
    print(f"{len(LENGTHS)} writes arrived", flush=True)


def connect(host: str) -> None:
    engine = engine_on(socket.gethostname())
    memory = Memory(engine)
    peer = socket.create_connection((host, PORT))
    lines = peer.makefile()
    there = hear(lines)
    assert isinstance(there, dict)
    for turn, length in enumerate(LENGTHS):
        memory.fill(turn + 1)
        assert engine.transfer_sync_write(there["session"], memory.address, there["address"], length) == 0, "the write failed"
        say(peer, "written")
        assert hear(lines) == "filled"
        assert engine.transfer_sync_read(there["session"], memory.address, there["address"], length) == 0, "the read failed"
        assert memory.begins_with(turn + 101, length), f"{length} bytes were read and are not the other side's"
    say(peer, "read")
    print(f"{len(LENGTHS)} reads arrived", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        connect(sys.argv[1])
    else:
        serve()
