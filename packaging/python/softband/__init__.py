"""Softband: InfiniBand in software. This package holds the command and its libraries.

The functions return paths. Programs start the command themselves.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["binary", "home", "main"]


def home() -> Path:
    """Returns the folder of the installation, which holds bin/, lib/, catalog/ and fabrics/."""
    return Path(__file__).resolve().parent / "tree"


def binary() -> Path:
    """Returns the path of the command `softband`."""
    return home() / "bin" / "softband"


def main() -> None:
    """Becomes the command that has this program's name.

    Commands of other packages, such as softband-study, lie beside this program. So their folder is
    added to the PATH.
    """
    started = Path(sys.argv[0])
    beside = str(started.resolve().parent) if started.is_file() else str(Path(sys.executable).parent)
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    environment = dict(os.environ)
    if beside not in folders:
        environment["PATH"] = os.pathsep.join([*folders, beside])
    name = started.name if (home() / "bin" / started.name).is_file() else "softband"
    program = str(home() / "bin" / name)
    os.execve(program, [program, *sys.argv[1:]], environment)
