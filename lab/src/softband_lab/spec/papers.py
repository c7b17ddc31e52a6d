"""The papers as chapters, from studies/papers/papers.toml. Each published row has exactly one place.

A study answers a row, or `unanswered.csv` gives the reason why no study does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import load_toml
from softband_lab.base.spelling import suggest
from softband_lab.base.strict import Strict, parse_model
from softband_lab.base.toml_lines import at, place
from softband_lab.spec.published import Published, load_published, read_rows
from softband_lab.spec.study import Study
from softband_lab.spec.study_file import list_studies, load_study

NAME = "papers"
_UNANSWERED = ("id", "source", "section", "system", "value", "unit", "quality", "note", "reason")
SECONDS = "seconds.csv"
SECONDS_COLUMNS = ("study", "run", "seconds")


class System(Strict):
    """A name for the rows whose system contains one of some texts."""

    name: str = Field(min_length=1)
    match: Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]


class Paper(Strict):
    """A chapter. Its rows have the ids `PREFIX001` to `PREFIX` with the number `rows`.

    `quick`: the figures of a study in the quick mode, if they are not those of the study itself. `systems`: names that
    join rows of the same system; the first match counts.
    """

    title: str = Field(min_length=1)
    source: str = Field(min_length=1)
    prefix: str = Field(pattern=r"^[A-Z]+$")
    rows: int = Field(gt=0, le=999)
    studies: list[str]
    quick: dict[str, list[int]] = Field(default_factory=dict)
    systems: list[System] = Field(default_factory=list)

    def system(self, text: str) -> str:
        """Returns the name of a system, or its own text if no name matches."""
        return next((one.name for one in self.systems if any(words in text for words in one.match)), text)

    def ids(self) -> list[str]:
        return [f"{self.prefix}{number:03}" for number in range(1, self.rows + 1)]


class PapersFile(Strict):
    title: str = Field(min_length=1)
    summary: str
    # The study whose generations sort the rows.
    generations: str
    papers: Annotated[list[Paper], Field(min_length=1)]


@dataclass(frozen=True)
class Unanswered:
    """A published row that no study answers."""

    published: Published
    reason: str


@dataclass(frozen=True)
class Chapter:
    paper: Paper
    studies: list[Study]
    unanswered: list[Unanswered]


@dataclass(frozen=True)
class Papers:
    path: Path
    title: str
    summary: str
    generations: Study
    chapters: list[Chapter]

    def studies(self) -> list[Study]:
        """Returns the studies in the order of the chapters."""
        return [study for chapter in self.chapters for study in chapter.studies]

    def rows(self) -> int:
        return sum(chapter.paper.rows for chapter in self.chapters)


def has_papers(home: Path) -> bool:
    return _file(home).is_file()


def load_papers(home: Path) -> Papers:
    """Reads the papers. Fails if a study is unknown, or a row is missing or has two places."""
    path = _file(home)
    content = parse_model(PapersFile, load_toml(path), path)
    known = list_studies(home)
    seen: dict[str, str] = {}
    for index, paper in enumerate(content.papers):
        for name in paper.studies:
            if name not in known:
                where = f"{at(path, ['papers', index, 'studies'])}: studies"
                raise LabError(where, f"there is no study `{name}`", suggest(name, known))
            if name in seen:
                where = f"{at(path, ['papers', index, 'studies'])}: studies"
                raise LabError(where, f"`{name}` already belongs to {seen[name]}", "each study in one paper")
            seen[name] = f"`{paper.title}`"
    unanswered = _load_unanswered(path.with_name("unanswered.csv"))
    chapters = [_chapter(home, path, index, paper, unanswered) for index, paper in enumerate(content.papers)]
    _check_rows(home, path, chapters, unanswered)
    if content.generations not in known:
        raise LabError(
            place(path, ["generations"]),
            f"there is no study `{content.generations}`",
            suggest(content.generations, known),
        )
    generations = load_study(home, content.generations)
    if generations.accuracy is None:
        raise LabError(
            place(path, ["generations"]), f"`{content.generations}` has no generations", "a study with `[accuracy]`"
        )
    return Papers(path, content.title, content.summary, generations, chapters)


def load_seconds(home: Path, out: Path) -> dict[tuple[str, str], float]:
    """Returns the duration of runs by study and run, as earlier campaigns measured them.

    The tree and the results folder may have such a file. That of the results folder is from this machine.
    """
    found: dict[tuple[str, str], float] = {}
    for path in (_file(home).with_name(SECONDS), out / SECONDS):
        if path.is_file():
            found |= _read_seconds(path)
    return found


def _read_seconds(path: Path) -> dict[tuple[str, str], float]:
    header, rows = read_rows(path)
    _check_columns(header, SECONDS_COLUMNS, path)
    found: dict[tuple[str, str], float] = {}
    for number, row in rows:
        try:
            seconds = float(row["seconds"])
        except ValueError:
            seconds = -1.0
        if not 0 <= seconds < 1e7:
            raise LabError(f"{path}:{number}: seconds", f"`{row['seconds']}` is not a duration", "a number of seconds")
        found[row["study"], row["run"]] = seconds
    return found


def _file(home: Path) -> Path:
    return home / "studies" / NAME / "papers.toml"


def _chapter(home: Path, path: Path, index: int, paper: Paper, unanswered: list[Unanswered]) -> Chapter:
    studies = []
    for name in paper.quick:
        if name not in paper.studies:
            raise LabError(
                f"{at(path, ['papers', index, 'quick'])}: quick", f"`{name}` is not a study of the paper", "one of them"
            )
    for name in paper.studies:
        study = load_study(home, name)
        if name in paper.quick:
            numbers = [figure.number for figure in study.figures]
            for number in paper.quick[name]:
                if number not in numbers:
                    where = f"{at(path, ['papers', index, 'quick'])}: quick.{name}"
                    raise LabError(where, f"there is no figure {number}", f"some of {numbers}")
            study = replace(study, head=study.head.model_copy(update={"quick_figures": paper.quick[name]}))
        studies.append(study)
    ids = set(paper.ids())
    return Chapter(paper, studies, [row for row in unanswered if row.published.id in ids])


def _check_rows(home: Path, path: Path, chapters: list[Chapter], unanswered: list[Unanswered]) -> None:
    """Fails unless each row of each paper has exactly one place, and each place a row."""
    places: dict[str, str] = {}
    named: dict[str, set[str]] = {}
    for row in unanswered:
        places[row.published.id] = row.published.place
    for chapter in chapters:
        named[chapter.paper.prefix] = {chapter.paper.system(row.published.system) for row in chapter.unanswered}
    for chapter in chapters:
        allowed = chapter.paper.ids()
        for study in chapter.studies:
            for claim in load_published(study.claims_path(home)):
                if claim.id in places:
                    raise LabError(
                        claim.where, f"the row also stands in {places[claim.id]}", "one place for each published row"
                    )
                if claim.id not in allowed:
                    problem = f"is not a row of `{chapter.paper.title}`, {allowed[0]} to {allowed[-1]}"
                    raise LabError(claim.where, problem, f"another id, or `rows` and `prefix` in {path}")
                places[claim.id] = claim.place
                named[chapter.paper.prefix].add(chapter.paper.system(claim.system))
    wanted = [claim for chapter in chapters for claim in chapter.paper.ids()]
    for claim_id in wanted:
        if claim_id not in places:
            raise LabError(
                f"{path}: {claim_id}",
                "no study answers this published row, and unanswered.csv does not name it",
                "a rule in the claims.toml of a study, or a line with the reason in unanswered.csv",
            )
    for index, chapter in enumerate(chapters):
        for system in chapter.paper.systems:
            if system.name not in named[chapter.paper.prefix]:
                where = f"{at(path, ['papers', index, 'systems'])}: systems"
                raise LabError(
                    where, f"`{system.name}` matches no row", "a text of the column `system`, or no such name"
                )
    for row in unanswered:
        if row.published.id not in wanted:
            raise LabError(row.published.where, "is not a row of any paper", f"an id of a paper in {path}")


def _load_unanswered(path: Path) -> list[Unanswered]:
    header, rows = read_rows(path)
    _check_columns(header, _UNANSWERED, path)
    found: dict[str, Unanswered] = {}
    for number, row in rows:
        where = f"{path}:{number}"
        for column in ("id", "value", "reason"):
            if not row[column].strip():
                raise LabError(
                    where, f"has no {column}", "the row as published, and the reason why no study answers it"
                )
        if row["id"] in found:
            raise LabError(where, f"has the id `{row['id']}` again", "each row once")
        words = {column: row[column] for column in _UNANSWERED if column != "reason"}
        found[row["id"]] = Unanswered(Published(**words, place=where), row["reason"])
    return list(found.values())


def _check_columns(header: list[str], wanted: tuple[str, ...], path: Path) -> None:
    if sorted(header) != sorted(wanted):
        raise LabError(f"{path}:1", f"has the columns {', '.join(header) or 'none'}", f"exactly {', '.join(wanted)}")
