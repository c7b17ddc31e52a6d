"""A PMI-1 server for the ranks of MPICH, as a program on a host of the fabric: pmi_server.py RANKS PORT."""

from __future__ import annotations

import re
import socket
import sys
from typing import TextIO


class Job:
    """The ranks of a job, and the values that they publish."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self.values = {"PMI_process_mapping": f"(vector,(0,{ranks},1))"}
        self.waiting: list[TextIO] = []

    def answer(self, line: str, stream: TextIO) -> str:
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        match fields.get("cmd"):
            case "initack":
                return f"cmd=initack rc=0\ncmd=set size={self.ranks}\ncmd=set rank={fields['pmiid']}\ncmd=set debug=0\n"
            case "init":
                return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
            case "get_maxes":
                return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0\n"
            case "get_appnum":
                return "cmd=appnum appnum=0 rc=0\n"
            case "get_my_kvsname":
                return "cmd=my_kvsname kvsname=kvs rc=0\n"
            case "get_universe_size":
                return f"cmd=universe_size size={self.ranks} rc=0\n"
            case "put":
                self.values[fields["key"]] = fields["value"]
                return "cmd=put_result rc=0 msg=success\n"
            case "get":
                value = self.values.get(fields["key"])
                return f"cmd=get_result rc=0 msg=success value={value}\n" if value else "cmd=get_result rc=-1 msg=unknown\n"
            case "barrier_in":
                return self.barrier(stream)
            case "finalize":
                return "cmd=finalize_ack rc=0\n"
        return ""

    def barrier(self, stream: TextIO) -> str:
        self.waiting.append(stream)
        if len(self.waiting) < self.ranks:
            return ""
        for other in self.waiting:
            other.write("cmd=barrier_out rc=0 msg=success\n")
            other.flush()
        self.waiting.clear()
        return ""


def serve(ranks: int, port: int) -> None:
    """Serves all ranks by one thread: it takes a line of each that has one."""
    import select

    listener = socket.create_server(("0.0.0.0", port), backlog=ranks)
    job, open_ranks, ended = Job(ranks), {}, 0
    while ended < ranks:
        ready, _, _ = select.select([listener, *open_ranks], [], [])
        for one in ready:
            if one is listener:
                connection, _ = listener.accept()
                open_ranks[connection] = connection.makefile("rw")
                continue
            stream = open_ranks[one]
            line = stream.readline()
            if not line:
                del open_ranks[one]
                ended += 1
            elif text := job.answer(line, stream):
                stream.write(text)
                stream.flush()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]))
