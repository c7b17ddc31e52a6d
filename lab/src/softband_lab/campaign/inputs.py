"""The input files of a run: a label for commands and messages, and a text that travels with the job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import tomli_w

from softband_lab.base.fabricfile import Document
from softband_lab.base.files import write_whole

_DERIVED = "fabrics/"


@dataclass(frozen=True)
class InputFile:
    """A fabric or workload file. The label is its name on the command line; results depend on the text alone."""

    label: str
    text: str

    def lay(self, folder: Path, suffix: str = "") -> Path:
        """Writes the file into the folder of a run, under the name of the label with `suffix`, if one is given."""
        name = Path(self.label).name
        path = folder / (f"{Path(name).stem}{suffix}" if suffix else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.text, encoding="utf-8")
        return path

    def leave(self, out: Path) -> Path:
        """Writes the file into the results folder, so that the commands of runs can be typed there."""
        path = out / self.label
        write_whole(path, self.text.encode())
        return path

    def in_own_words(self, text: str, laid: Path) -> str:
        """Returns a message with the label in place of the path where `lay` wrote the file."""
        return text.replace(str(laid), self.label)


def fabric_file(path: Path, label: str) -> InputFile:
    """Returns a fabric file as it stands."""
    return InputFile(label, path.read_text(encoding="utf-8"))


def derived_fabric(stem: str, document: Document) -> InputFile:
    """Returns a changed fabric, labelled by its place in the results folder."""
    return InputFile(f"{_DERIVED}{stem}.toml", tomli_w.dumps(document))


def leave_derived(files: list[InputFile], out: Path) -> None:
    """Writes each changed fabric once into the results folder."""
    for file in {file.label: file for file in files if file.label.startswith(_DERIVED)}.values():
        file.leave(out)
