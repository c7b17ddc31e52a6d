"""Runs rdma-core's own Python tests and prints one line for each: its name, its outcome and why it was skipped or failed.

Usage: run.py TESTS_FOLDER --dev DEVICE [options of rdma-core's run_tests.py]. To be run with the Python that pyverbs was built
for, by `softband run` on a host. The tests stay where their package put them; nothing of them is copied into this repository.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path
from types import TracebackType
from typing import Any


class Lines(unittest.TestResult):
    """Prints outcomes as they come, so that a run that hangs tells where."""

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


def main() -> None:
    folder = Path(sys.argv.pop(1)).resolve()
    # The package must be found as `tests`, as its own starter has it, and its modules import each other both ways.
    sys.path[:0] = [str(folder.parent), str(folder)]
    from args_parser import parser  # type: ignore[import-not-found]

    parser.parse_args()  # takes its own options away
    rest = sys.argv[1:]
    import tests  # type: ignore[import-not-found]

    loader = unittest.TestLoader()
    suite = loader.loadTestsFromNames([f"tests.{name}" for name in rest]) if rest else loader.loadTestsFromModule(tests)
    result = Lines()
    suite.run(result)
    sys.exit(0)


main()
