"""A modelled InfiniBand fabric for each test. The fixture `softband` is in `plugin`."""

from __future__ import annotations

from pytest_softband.fabric import Fabric, ProgramFailed, Run, SoftbandError, Spawned, TimeLimit
from pytest_softband.marks import Settings

__all__ = ["Fabric", "ProgramFailed", "Run", "Settings", "SoftbandError", "Spawned", "TimeLimit"]
