"""The one exception that a person sees: it says where, what is wrong and what would be right."""

from __future__ import annotations

from pathlib import Path


class LabError(Exception):
    """A mistake in an input, or a missing piece; never a bug of the lab itself.

    Without a remedy the problem says it already.
    """

    def __init__(self, where: Path | str, problem: str, remedy: str) -> None:
        super().__init__(f"{where}: {problem}" + (f"\n  help: {remedy}" if remedy else ""))
        self.where = str(where)
        self.problem = problem
        self.remedy = remedy

    def __reduce__(self) -> tuple[type[LabError], tuple[str, str, str]]:
        """Exceptions come from other machines, too: without this only the text would be given to the constructor."""
        return LabError, (self.where, self.problem, self.remedy)


class MissingEvidence(Exception):
    """A claim needs a result that no run of this tree gives; the text is the reason."""


class NotRun(MissingEvidence):
    """A claim needs a run that was left out or that failed; the text is the reason."""
