"""A sweep from its inputs to the table of its runs."""

from __future__ import annotations

import json
import os
import re
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table as Printed

from softband_lab.base.errors import LabError
from softband_lab.base.files import cannot_write, write_whole
from softband_lab.base.parquet import read_parquet
from softband_lab.base.softband import Softband
from softband_lab.base.table_files import write_table
from softband_lab.base.tables import Table, joined
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.dataset import Store
from softband_lab.campaign.inputs import leave_derived
from softband_lab.campaign.jobs import content_key, digest_of
from softband_lab.campaign.model_job import ModelJob, workload_inputs
from softband_lab.campaign.runner import Outcome, exclusive, run_jobs
from softband_lab.campaign.warned import Warned, is_of_inputs, paragraphs
from softband_lab.sweep.question import Question

_FORMAT = 1  # of sweep.json
_SHOWN = 20
# Most fabrics that are checked before the first run. The warnings of others follow their runs.
_MOST_FABRICS_FIRST = 32


@dataclass(frozen=True)
class Swept:
    """The end of a sweep: the head of each finished run in the order of the combinations, and the failures."""

    heads: list[Table]
    outcome: Outcome[Table]

    @property
    def status(self) -> int:
        """0 success, 1 a run failed, 130 interrupted."""
        return 130 if self.outcome.interrupted else 1 if self.outcome.failures else 0


def run_sweep(question: Question, softband: Softband, out: Path, cluster: Cluster, console: Console) -> int:
    """Runs a sweep, and prints its end. Returns the exit status."""
    swept = sweep(question, softband, out, cluster, console)
    if swept.outcome.interrupted:
        console.print(f"interrupted: {len(swept.heads)} of {question.count} runs are kept in {out}")
        console.print("the same command goes on from there")
        return swept.status
    _print_end(question, swept.heads, swept.outcome.reused, console)
    if swept.outcome.failures:
        failed = ", ".join(swept.outcome.failures)
        console.print(f"[bold red]{len(swept.outcome.failures)} runs failed:[/] {failed}")
    console.print(f"[bold]the data set:[/] {out / 'data'}", soft_wrap=True)
    return swept.status


def sweep(question: Question, softband: Softband, out: Path, cluster: Cluster, console: Console) -> Swept:
    """Checks the values, runs the combinations without results, and writes `runs.csv` and `runs.parquet`."""
    warned, place = Warned(), out / "data" / "warnings"
    try:
        with console.status("checking the values"):
            check(question, softband, warned)
            jobs = question.jobs()
            _look_at_other_fabrics(question, jobs, softband, warned)
    finally:
        warned.show("they follow when their runs have ended")
    with exclusive(out):
        _make_room(question, softband, out, console)
        leave_derived([job.fabric for job in jobs], out)
        outcome = run_jobs(jobs, softband, out, cluster, console)
        heads = [outcome.results[job.id] for job in jobs if job.id in outcome.results]
        _hear_runs(question, jobs, outcome.results, place, warned)
        warned.show(str(place))
        if heads and not outcome.interrupted:
            write_table(joined(heads), out, "runs")
    return Swept(heads, outcome)


@dataclass(frozen=True)
class _Look:
    """The answer of `softband model --check` about a run, with the user's names of its inputs."""

    refusal: str | None
    warnings: list[str]


def check(question: Question, softband: Softband, warned: Warned) -> None:
    """Lets `softband` check the values before the first run. Fails with its message."""
    for axis, value, job in question.to_be_checked():
        look = _look(question, job, softband)
        _hear(question, job, look.warnings, warned)
        said = look.refusal
        if said is not None:
            # A message with a remedy, or about something else, needs no further one.
            has_remedy = "help:" in said or ": from " in said
            is_of_key = axis.is_option and axis.name in said.replace("_", "-")
            remedy = "what docs/model.md says of that key" if is_of_key and not has_remedy else ""
            raise LabError(f"--sweep {axis.name}={value}", said, remedy)


def _look_at_other_fabrics(question: Question, jobs: list[ModelJob], softband: Softband, warned: Warned) -> None:
    """Collects the warnings of fabrics that only combinations of values make, before hours of runs."""
    others = {question.of_fabric(job): job for job in reversed(jobs)}
    left = [job for whom, job in reversed(others.items()) if not warned.has_heard(whom)][:_MOST_FABRICS_FIRST]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, look in zip(left, pool.map(lambda job: _look(question, job, softband), left), strict=True):
            _hear(question, job, look.warnings, warned)


def _hear_runs(question: Question, jobs: list[ModelJob], heads: dict[str, Table], place: Path, warned: Warned) -> None:
    """Reads the warnings of runs that have more than their fabric. Reading all would take long."""
    for job in jobs:
        if job.id in heads and heads[job.id].columns["warnings"][0] > warned.count(question.of_fabric(job)):
            said = read_parquet((place / f"{job.id}.parquet").read_bytes()).columns["warning"]
            _hear(question, job, [_own_name(question, job, text) for text in said], warned)


def _hear(question: Question, job: ModelJob, warnings: list[str], warned: Warned) -> None:
    """Assigns warnings of inputs to the fabric, and warnings of the simulation to the run."""
    warned.add(question.of_fabric(job), filter(is_of_inputs, warnings))
    of_run = [text for text in warnings if not is_of_inputs(text)]
    if of_run:
        warned.add(question.of_run(job), of_run)


def check_runs(question: Question, softband: Softband, at_once: int | None, console: Console) -> int:
    """Checks every run and starts none. Returns 0 if all can run, else 2."""
    jobs, warned, wrong = question.jobs(), Warned(), []
    with ThreadPoolExecutor(at_once or os.cpu_count()) as pool, console.status(f"checking {len(jobs)} runs"):
        for job, look in zip(jobs, pool.map(lambda job: _look(question, job, softband), jobs), strict=True):
            _hear(question, job, look.warnings, warned)
            if look.refusal is not None:
                wrong.append((question.of_run(job), look.refusal))
    warned.show("--check with these values alone shows them")
    for values, text in wrong:
        console.print(f"[bold red]cannot run[/] {escape(values)}: {escape(text)}", soft_wrap=True, highlight=False)
    verdict = f"{len(wrong)} of them cannot be run" if wrong else "all of them can be run"
    console.print(f"{len(jobs)} runs checked: {verdict}")
    return 2 if wrong else 0


def _look(question: Question, job: ModelJob, softband: Softband) -> _Look:
    with tempfile.TemporaryDirectory(prefix="softband-check-") as folder:
        try:
            words = job.place(Path(folder))
        except OSError as error:
            raise cannot_write(Path(folder), error) from None
        answer = softband.ask(["model", *words, "--check"])
    said = paragraphs(_own_name(question, job, job.in_own_words(words, answer.stderr)))
    if answer.exit_status == 0:
        return _Look(None, said)
    wrong = "\n".join(text for text in said if not is_of_inputs(text))
    wrong = wrong.removeprefix("softband: ").removeprefix("error: ")
    return _Look(wrong or f"exit status {answer.exit_status}", list(filter(is_of_inputs, said)))


def _own_name(question: Question, job: ModelJob, text: str) -> str:
    if job.fabric.label == question.fabric_label:
        return text
    # The changed file may not exist yet, and its lines are not those of the user's file.
    return re.sub(re.escape(job.fabric.label) + r"(:\d+)*", lambda _: question.fabric_label, text)


def _make_room(question: Question, softband: Softband, out: Path, console: Console) -> None:
    """Removes runs of other inputs: runs of a data set differ only in the keys. Fails for another sweep."""
    path = out / "sweep.json"
    of_whom = {
        "format": _FORMAT,
        "fabric": question.fabric.name,
        "workload": question.workload_name,
        "options": list(question.options),
        "keys": {axis.column: axis.kind for axis in question.axes},
    }
    ours: dict[str, Any] = {**of_whom, "inputs": _digest(question, softband)}
    theirs = _read(path)
    if theirs == ours:
        return
    if theirs is not None and {name: theirs.get(name) for name in of_whom} != of_whom:
        keys = ", ".join(theirs.get("keys", {}))
        options = " ".join(theirs.get("options", []))
        whose = f"of {theirs.get('workload')} {options}".rstrip() + f" on {theirs.get('fabric')}"
        raise LabError(path, f"holds a sweep of {keys} {whose}", "another --out, or what that sweep had")
    # The keys of runs decide, even if sweep.json is lost.
    former = Store(out).clear(ModelJob.tables, [(job, content_key(job, softband)) for job in question.jobs()])
    if former:
        of_what = "another text of the fabric or workload, or of another softband" if theirs else "other values"
        console.print(f"{former} runs in {out} are of {of_what}: they go")
    write_whole(path, (json.dumps(ours, indent=1) + "\n").encode())


def _read(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) else None


def _digest(question: Question, softband: Softband) -> str:
    text = question.fabric.read_text(encoding="utf-8")
    return digest_of(softband, text, workload_inputs(question.workload)[1])


def _print_end(question: Question, heads: list[Table], reused: int, console: Console) -> None:
    columns = [axis.column for axis in question.axes]
    table = Printed(title=f"{question.workload_name} on {question.fabric_label}")
    for column in (*columns, "completion", "median rate of a flow"):
        table.add_column(column, justify="right")
    for head in heads[:_SHOWN]:
        (row,) = head.rows()
        rate = row["flow_median_bytes_per_second"] / 1e6
        table.add_row(
            *(str(row[column]) for column in columns), f"{row['completion_ps'] / 1e6:.3f} us", f"{rate:.1f} MB/s"
        )
    console.print(table)
    if len(heads) > _SHOWN:
        console.print(f"and {len(heads) - _SHOWN} more (runs.csv)")
    console.print(f"runs: {len(heads)} finished, {reused} of them kept from before")
