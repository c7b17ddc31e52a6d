"""A server of PMI-1, the protocol by which the ranks of MPICH find each other.

The server ends after the last rank has finalized. It ends with status 1 if a rank leaves before.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Iterator

LIMITS = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"


class Job:
    """The keys of a job, and its ranks that wait at the barrier."""

    def __init__(self, size: int, hosts: int) -> None:
        self.size = size
        rounds = "".join(f",(0,{min(hosts, size - first)},1)" for first in range(0, size, hosts))
        self.keys = {"PMI_process_mapping": f"(vector{rounds})"}
        self.waiting: list[socket.socket] = []
        self.finished: set[socket.socket] = set()

    def answers(self, peer: socket.socket, words: dict[str, str]) -> Iterator[tuple[socket.socket, str]]:
        """Yields the answers to a command, with their receivers."""
        command = words["cmd"]
        if command == "barrier_in":
            self.waiting.append(peer)
            if len(self.waiting) == self.size:
                yield from ((waiting, "cmd=barrier_out") for waiting in self.waiting)
                self.waiting = []
        elif command == "put":
            self.keys[words["key"]] = words["value"]
            yield peer, "cmd=put_result rc=0 msg=success"
        elif command == "get":
            value = self.keys.get(words["key"])
            yield peer, "cmd=get_result rc=-1 msg=key_not_found value=unknown" if value is None else f"cmd=get_result rc=0 msg=success value={value}"
        elif command == "initack":
            rank = words["pmiid"]
            yield peer, f"cmd=initack rc=0\ncmd=set size={self.size}\ncmd=set rank={rank}\ncmd=set debug=0"
        elif command == "finalize":
            self.finished.add(peer)
            yield peer, "cmd=finalize_ack"
        else:
            yield peer, self.constant(command)

    def constant(self, command: str) -> str:
        return {
            "init": "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0",
            "get_maxes": LIMITS,
            "get_appnum": "cmd=appnum appnum=0",
            "get_my_kvsname": "cmd=my_kvsname kvsname=job",
            "get_universe_size": f"cmd=universe_size size={self.size}",
        }.get(command, f"cmd={command} rc=-1")


def words_of(line: str) -> dict[str, str]:
    """Splits a line into its keys and values. Only the last value may have spaces."""
    head, found, value = line.partition("value=")
    words = dict(word.split("=", 1) for word in head.split())
    return {**words, "value": value} if found else words


def serve(listener: socket.socket, size: int, hosts: int) -> int:
    """Serves one job. Returns the exit status."""
    job = Job(size, hosts)
    rest: dict[socket.socket, bytes] = {}
    with selectors.DefaultSelector() as ready:
        ready.register(listener, selectors.EVENT_READ)
        while len(job.finished) < size:
            for key, _ in ready.select():
                peer = key.fileobj
                assert isinstance(peer, socket.socket)
                if peer is listener:
                    accepted, _ = listener.accept()
                    rest[accepted] = b""
                    ready.register(accepted, selectors.EVENT_READ)
                    continue
                data = peer.recv(65536)
                if not data and peer not in job.finished:
                    return 1
                if not data:
                    ready.unregister(peer)
                    continue
                *lines, rest[peer] = (rest[peer] + data).split(b"\n")
                for line in lines:
                    for receiver, text in job.answers(peer, words_of(line.decode())):
                        receiver.sendall(text.encode() + b"\n")
    return 0
