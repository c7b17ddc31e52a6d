"""The temporary folder of runs on this machine. The next process removes the folder of a killed one."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

_PREFIX = "softband-runs-"


class Scratch:
    def __init__(self) -> None:
        remove_leftovers()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-"))

    def remove(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)


def remove_leftovers() -> None:
    """Removes the folders of processes that no longer exist."""
    for path in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        match = re.fullmatch(rf"{_PREFIX}([0-9]+)-.*", path.name)
        if match and not Path(f"/proc/{match[1]}").exists():
            shutil.rmtree(path, ignore_errors=True)
