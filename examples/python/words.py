"""Words over InfiniBand, with pyverbs: the server returns each word in capitals."""

from __future__ import annotations

import sys

from pyverbs.cm_enums import RAI_PASSIVE, RDMA_PS_TCP
from pyverbs.cmid import CMID, AddrInfo
from pyverbs.cq import cqe_status_to_str
from pyverbs.enums import IBV_WC_SUCCESS
from pyverbs.pyverbs_error import PyverbsError
from pyverbs.qp import QPCap, QPInitAttr

PORT = "7475"
SIZE = 64


class Peer:
    """A connected endpoint with a buffer for one word."""

    def __init__(self, server: str | None) -> None:
        attributes = QPInitAttr(cap=QPCap(max_send_wr=1, max_recv_wr=2), sq_sig_all=1)
        if server is None:
            self.listener = CMID(AddrInfo(src_service=PORT, port_space=RDMA_PS_TCP, flags=RAI_PASSIVE), attributes)
            self.listener.listen()
            self.id = self.listener.get_request()
        else:
            self.id = CMID(AddrInfo(src=None, dst=server, dst_service=PORT, port_space=RDMA_PS_TCP), attributes)
        self.heard, self.said = self.id.reg_msgs(SIZE), self.id.reg_msgs(SIZE)
        self.id.post_recv(self.heard)
        self.id.connect() if server else self.id.accept()

    def say(self, word: str) -> None:
        self.said.write(word.encode().ljust(SIZE, b"\0"), SIZE)
        self.id.post_send(self.said)
        self.check(self.id.get_send_comp(), "send")

    def hear(self) -> str:
        self.check(self.id.get_recv_comp(), "receive")
        word = self.heard.read(SIZE, 0).rstrip(b"\0").decode()
        self.id.post_recv(self.heard)
        return word

    @staticmethod
    def check(completion: object, step: str) -> None:
        status = getattr(completion, "status", None)
        if status != IBV_WC_SUCCESS:
            raise PyverbsError(f"{step}: {cqe_status_to_str(status)}")


def main() -> int:
    if len(sys.argv) < 3:
        print("usage: words.py serve COUNT | words.py ask SERVER WORD...", file=sys.stderr)
        return 2
    try:
        if sys.argv[1] == "serve":
            peer = Peer(None)
            for _ in range(int(sys.argv[2])):
                peer.say(peer.hear().upper())
        else:
            peer = Peer(sys.argv[2])
            for word in sys.argv[3:]:
                peer.say(word)
                print(peer.hear())
    except PyverbsError as error:
        print(f"words: {error}", file=sys.stderr)
        return 1
    return 0


sys.exit(main())
