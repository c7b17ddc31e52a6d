"""Runs rdma-core's own Python tests. Prints the name, the outcome and the reason of each.

Usage: run.py TESTS_FOLDER --dev DEVICE [options of rdma-core's run_tests.py]. `softband run` starts it
on a host, with the Python that pyverbs was built for. The tests stay in the folder of their package.
This repository has no copy of them.
"""

from __future__ import annotations

import socket
import sys
import unittest
from pathlib import Path
from types import TracebackType
from typing import Any


class Lines(unittest.TestResult):
    """Prints each outcome at once, so that a run that hangs shows its place."""

    def tell(self, test: unittest.TestCase, outcome: str, reason: str = "") -> None:
        print("\t".join([test.id().removeprefix("tests."), outcome, *([reason] if reason else [])]), flush=True)

    def addSuccess(self, test: unittest.TestCase) -> None:
        self.tell(test, "pass")

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.tell(test, "skip", " ".join(reason.split()))

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        self.broken(test, "fail", err)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        self.broken(test, "error", err)

    def broken(self, test: unittest.TestCase, outcome: str, err: tuple[type[BaseException], BaseException, TracebackType]) -> None:
        self.tell(test, outcome, " ".join(str(err[1]).split())[:200])
        print(self._exc_info_to_string(err, test), file=sys.stderr)  # type: ignore[attr-defined]


def find_address(test: Any, device: str, port: int, index: int) -> None:
    """Stands in for `RDMATestCase._get_ip_mac`, which asks the kernel for the network interface of the HCA.

    A host of Softband has an address, but no such interface.
    """
    test.args.append([device, port, index, socket.gethostbyname(socket.gethostname()), None])


def main() -> None:
    folder = Path(sys.argv.pop(1)).resolve()
    # Python must find the package as `tests`, as with rdma-core's starter. Its modules import each
    # other both ways.
    sys.path[:0] = [str(folder.parent), str(folder)]
    from args_parser import parser  # type: ignore[import-not-found]

    parser.parse_args()  # removes its own options
    rest = sys.argv[1:]
    from tests.base import RDMACMBaseTest  # type: ignore[import-not-found]

    import tests  # type: ignore[import-not-found]

    RDMACMBaseTest._get_ip_mac = find_address
    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames([f"tests.{name}" for name in rest]) if rest else loader.loadTestsFromModule(tests)
    result = Lines()
    suite.run(result)
    sys.exit(0)


main()
