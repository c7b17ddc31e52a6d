"""The exceptions of the lab. `LabError` reaches the user: it names the place, the problem and the remedy."""

from __future__ import annotations

from pathlib import Path


class LabError(Exception):
    """A wrong input or a missing file, never a bug of the lab. An empty remedy adds no help line."""

    def __init__(self, where: Path | str, problem: str, remedy: str) -> None:
        super().__init__(f"{where}: {problem}" + (f"\n  help: {remedy}" if remedy else ""))
        self.where = str(where)
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[LabError], tuple[str, str, str]]:
        """Keeps all three arguments when a worker sends the exception: pickle would pass the text alone."""
        return LabError, (self.where, self.problem, self.remedy)


class MissingEvidence(Exception):
    """No run of this tree gives the result that a claim needs. The text is the reason."""


class NotRun(MissingEvidence):
    """The run that a claim needs failed, or the study left it out. The text is the reason."""
