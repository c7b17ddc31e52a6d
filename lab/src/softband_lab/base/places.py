"""Finds the `softband` binary, and the folder that holds studies/, references/ and fabrics/.

The search starts at this file, so a copied or moved tree works.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from softband_lab.base.errors import LabError

_HOME_FOLDERS = ("studies", "references")


def find_home(environ: Mapping[str, str] | None = None) -> Path:
    """Returns the folder with studies/ and references/: an installed tree or a checkout. Fails if none is found."""
    environ = os.environ if environ is None else environ
    named = environ.get("SOFTBAND_HOME")
    if named:
        home = Path(named).resolve()
        _require_home(home)
        return home
    for candidate in _home_candidates(environ):
        if _is_home(candidate):
            return candidate
    raise LabError(
        "SOFTBAND_HOME",
        "is not set, and no folder above this package or beside `softband` holds studies/ and references/",
        "set SOFTBAND_HOME to the folder of the Softband tree (the one with bin/, studies/ and references/)",
    )


def find_softband(environ: Mapping[str, str] | None = None) -> Path:
    """Returns the path of the `softband` binary. Fails if none is found."""
    environ = os.environ if environ is None else environ
    named = environ.get("SOFTBAND_BIN")
    if named:
        binary = Path(named).resolve()
        if not _is_program(binary):
            raise LabError(f"SOFTBAND_BIN={named}", "is not a program", "name the file of the `softband` binary")
        return binary
    for candidate in _binary_candidates(environ):
        if _is_program(candidate):
            return candidate.resolve()
    raise LabError(
        "softband",
        "was found neither beside this script, nor in PATH, nor in target/dist/bin of a checkout",
        "run `make build`, or set SOFTBAND_BIN to the binary",
    )


def fabric_path(home: Path, name: str) -> Path:
    """Returns the path of a fabric file that is named relative to fabrics/."""
    return home / "fabrics" / name


def find_fabric(home: Path, given: Path) -> Path:
    """Returns the path of a fabric: a file, or a name in the tree (`cables/sdr-10m`), as `softband run` accepts it."""
    named = home / "fabrics" / given
    for candidate in (given, home / given, named, named.with_name(named.name + ".toml")):
        if candidate.is_file():
            return candidate
    raise LabError(given, "is not a fabric file", f"a file, or the name of one in {home / 'fabrics'}")


def _home_candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    yield from _package_ancestors()
    for binary in _binary_candidates(environ):
        if _is_program(binary):
            yield binary.resolve().parent.parent


def _binary_candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    yield Path(sys.argv[0]).resolve().parent / "softband"
    ancestors = _package_ancestors()
    for ancestor in ancestors:
        yield ancestor / "bin" / "softband"
    on_path = shutil.which("softband", path=environ.get("PATH"))
    if on_path:
        yield Path(on_path)
    for ancestor in ancestors:
        yield ancestor / "target" / "dist" / "bin" / "softband"


def _package_ancestors() -> list[Path]:
    # python/softband_lab lies two levels below an installed tree, lab/src/softband_lab three below a checkout.
    # The search stops there: a folder further up could be an unrelated tree.
    return list(Path(__file__).resolve().parents)[2:5]


def _is_home(folder: Path) -> bool:
    return all((folder / name).is_dir() for name in _HOME_FOLDERS)


def _is_program(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _require_home(home: Path) -> None:
    for name in _HOME_FOLDERS:
        if not (home / name).is_dir():
            raise LabError(
                f"SOFTBAND_HOME={home}",
                f"has no folder {name}/",
                "name the folder of the Softband tree (the one with bin/, studies/ and references/)",
            )
