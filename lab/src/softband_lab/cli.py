"""The commands: study, what-if, model-sweep, compare, and those of the site."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from softband_lab.base.errors import LabError
from softband_lab.base.fabricfile import OPERATIONAL_VLS_CODE, load_toml
from softband_lab.base.places import fabric_path, find_fabric, find_home, find_softband
from softband_lab.base.softband import Softband
from softband_lab.base.table_files import write_table
from softband_lab.campaign.cluster import Cluster, check_dask
from softband_lab.campaign.runner import describe_failure, exclusive
from softband_lab.campaign.subnet_manager import SubnetManager, check_manager
from softband_lab.report.compare import compare as compare_tables
from softband_lab.report.compare import load_results, print_comparison
from softband_lab.site.links import check_links
from softband_lab.site.pages import Site, start_afresh
from softband_lab.spec.papers import NAME as PAPERS
from softband_lab.spec.papers import has_papers, load_papers
from softband_lab.spec.study import Study
from softband_lab.spec.study_file import list_studies, load_study
from softband_lab.study.accuracy import run_accuracy
from softband_lab.study.papers import run_papers
from softband_lab.study.pipeline import run_study
from softband_lab.study.plan import StudyOptions
from softband_lab.sweep.question import ask as ask_sweep
from softband_lab.sweep.run import check_runs, run_sweep
from softband_lab.sweep.whatif import Point, Question, choose_cables, load_defaults, message_size, parse_lengths
from softband_lab.sweep.whatif_report import print_surface, write_page

Jobs = Annotated[
    int | None,
    typer.Option("--jobs", "-j", min=1, help="Runs at the same time; default: one a core. Of slurm: jobs to ask for."),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--cluster", help="Where runs execute: tcp://HOST:PORT of a Dask scheduler, or `slurm`; default: here."
    ),
]


def study(
    name: Annotated[
        str | None,
        typer.Argument(help="A study's name, or its folder; `papers`: the studies of five papers, on one page."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Only the figures that the study calls quick.")] = False,
    out: Annotated[Path | None, typer.Option("--out", help="Results folder; default: results/NAME.")] = None,
    jobs: Jobs = None,
    cluster: Where = None,
    manager: Annotated[
        SubnetManager,
        typer.Option("--sm", help="Who configures the fabric: the built-in manager, or the installed OpenSM."),
    ] = SubnetManager.BUILTIN,
    listing: Annotated[bool, typer.Option("--list", help="List the studies, or the study's runs.")] = False,
) -> None:
    """Run a study: each missing run, then tables, claims, figures and the page."""
    console = Console()
    home = find_home()
    if name is None:
        names = sorted([*list_studies(home), *([PAPERS] if has_papers(home) else [])])
        console.print("\n".join(names) if names else f"no studies in {home / 'studies'}")
        if not listing:
            raise LabError("NAME", "is missing", f"one of: {', '.join(names)}")
        return
    if name == PAPERS and has_papers(home):
        raise typer.Exit(_study_papers(home, quick, out, Cluster(cluster, jobs), manager, listing, console))
    chosen = load_study(home, name)
    if listing:
        _list_runs(chosen, quick, console)
        return
    folder = out or Path("results") / f"{chosen.head.name}{manager.suffix}"
    command = _study_command(chosen.head.name, quick, manager)
    softband = Softband(find_softband(), home)
    with Cluster(cluster, jobs) as place:
        if place.is_local:
            check_manager(manager)
        options = StudyOptions(home, folder, quick, place, command, manager)
        if chosen.accuracy is not None:
            folders = out or Path("results")
            status = run_accuracy(chosen, chosen.accuracy, softband, options, folders, console)
        else:
            status = run_study(chosen, softband, options, console).status
    raise typer.Exit(status)


def _study_papers(
    home: Path,
    quick: bool,
    out: Path | None,
    cluster: Cluster,
    manager: SubnetManager,
    listing: bool,
    console: Console,
) -> int:
    if manager is not SubnetManager.BUILTIN:
        raise LabError("--sm opensm", "is not for `papers`: MPI jobs do not wait for OpenSM", "one study by its name")
    papers = load_papers(home)
    if listing:
        for number, chapter in enumerate(papers.chapters, 1):
            console.print(f"{number}. {chapter.paper.title}", highlight=False, soft_wrap=True)
            for study in chapter.studies:
                _list_runs(study, quick, console, prefix=f"   {study.head.name}  ")
        return 0
    command = _study_command(PAPERS, quick, manager)
    with cluster as place:
        options = StudyOptions(home, out or Path("results") / PAPERS, quick, place, command)
        return run_papers(papers, Softband(find_softband(), home), options, console)


def _list_runs(study: Study, quick: bool, console: Console, prefix: str = "") -> None:
    for run in study.runs(quick):
        text = f"{prefix}{run.id}  {run.fabric}  {run.transport}  {run.test}"
        console.print(text, highlight=False, soft_wrap=True)


def _study_command(name: str, quick: bool, manager: SubnetManager) -> str:
    return shlex.join(["softband", "study", name, *(["--quick"] if quick else []), *manager.options])


def what_if(
    fabric: Annotated[
        Path | None,
        typer.Argument(help="Fabric file or name in the installation; default: the one of studies/what-if.toml."),
    ] = None,
    cable_length: Annotated[
        str | None, typer.Option("--cable-length", help="`1m..300m`, `10m..100m:10m` or `1m,10m,100m`.")
    ] = None,
    vls: Annotated[
        str | None, typer.Option("--vls", help="Numbers of operational data lanes, as in `1,2,4,8`.")
    ] = None,
    rate: Annotated[str | None, typer.Option("--rate", help="Caps of the link rate, as in `sdr,ddr,edr`.")] = None,
    cable: Annotated[
        list[str] | None, typer.Option("--cable", help="Cable to vary, by part or by one end (`a/mthca0/1`).")
    ] = None,
    part: Annotated[str | None, typer.Option("--part", help="Part of adjustable length for the varied cables.")] = None,
    command: Annotated[
        str | None,
        typer.Option("--command", help="The server's perftest command; the client's adds the host."),
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Results folder.")] = Path("results/what-if"),
    jobs: Jobs = None,
    cluster: Where = None,
) -> None:
    """Bandwidth over cable length, lanes and rate, and the longest cable at full bandwidth."""
    console = Console()
    home = find_home()
    defaults = load_defaults(home)
    path = find_fabric(home, fabric) if fabric else fabric_path(home, defaults.fabric)
    line = command or defaults.command
    lengths = parse_lengths(cable_length or defaults.lengths)
    lanes = _parse_vls(vls) if vls else defaults.vls
    rates: list[str | None] = [name.strip().upper() for name in rate.split(",")] if rate else [None]
    points = [Point(count, name, length) for name in rates for count in lanes for length in lengths]
    with Cluster(cluster, jobs) as place, exclusive(out):
        question = Question(
            Softband(find_softband(), home),
            out,
            path,
            part or defaults.cable_part,
            choose_cables(load_toml(path), path, cable or [], defaults.fixed_parts),
            line,
            defaults,
            message_size(line, defaults.size_bytes),
            place,
            console,
        )
        question.count_messages(points)
        question.measure(points)
        limits = question.limits(points)
        write_table(question.table(), out, "surface")
        shown = shlex.join(["softband", "what-if", *_own_arguments("what-if")])
        write_page(question, limits, lengths, shown, out / "report.html")
    print_surface(question, limits, lengths, console)
    for failure in question.outcome.failures.values():
        console.print(describe_failure(failure))
    if question.known:
        console.print(f"[bold]the page with the charts:[/] {out / 'report.html'}", soft_wrap=True)
    raise typer.Exit(1 if question.outcome.failures else 0)


def model_sweep(
    fabric: Annotated[Path, typer.Argument(help="The fabric file, or the name of one in the installation.")],
    workload: Annotated[str, typer.Argument(help="A workload of `softband model`, or its file.")],
    options: Annotated[
        list[str] | None, typer.Argument(help="Further options of `softband model`, after `--`.")
    ] = None,
    sweep: Annotated[
        list[str] | None, typer.Option("--sweep", help="KEY=V1,V2,...; several: each combination.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Results folder; default: results/sweep-WORKLOAD.")] = None,
    check: Annotated[bool, typer.Option("--check", help="Check every run, and start none.")] = False,
    jobs: Jobs = None,
    cluster: Where = None,
) -> None:
    """`softband model FABRIC WORKLOAD --sweep KEY=V1,V2,...`: one run for each combination of values."""
    home = find_home()
    softband = Softband(find_softband(), home)
    if not sweep:
        raise LabError("--sweep", "is missing", "what to vary, as in --sweep bytes=4KiB,64KiB")
    question = ask_sweep(home, fabric, workload, tuple(options or ()), sweep)
    if check:
        raise typer.Exit(check_runs(question, softband, jobs, Console()))
    folder = out or Path("results") / f"sweep-{question.workload_name}"
    with Cluster(cluster, jobs) as place:
        status = run_sweep(question, softband, folder, place, Console())
    raise typer.Exit(status)


def compare(
    first: Annotated[Path, typer.Argument(help="Results folder, for instance of the hardware.")],
    second: Annotated[Path, typer.Argument(help="Results folder, for instance of the model.")],
    tolerance: Annotated[float, typer.Option("--tolerance", help="Percent apart that is still alike.")] = 5.0,
) -> None:
    """Compare two results folders: values of common runs and message sizes, and rows of only one folder.

    Exit status:

    0: both have the same rows and values, within the tolerance.

    1: a value is beyond the tolerance, or only one folder has a row or a value.

    2: a mistake in a file or in the command prevented the comparison.
    """
    if not (math.isfinite(tolerance) and tolerance >= 0):
        raise LabError("--tolerance", f"`{tolerance:g}` is not a tolerance", "a number of percent, 0 or more")
    comparison = compare_tables(load_results(first), load_results(second))
    if not (comparison.differences or comparison.empty):
        raise LabError(
            f"{first}, {second}",
            f"have no run and size in common: one has {comparison.only_first[0]}, the other "
            f"{comparison.only_second[0]}",
            "two results of the same study, or of parts of it",
        )
    print_comparison(comparison, tolerance, Console())
    raise typer.Exit(0 if comparison.is_alike(tolerance) else 1)


def site(
    out: Annotated[Path, typer.Argument(help="Folder of the site.")],
    catalog: Annotated[Path | None, typer.Option("--catalog", help="Folder with your own parts.")] = None,
    results: Annotated[Path | None, typer.Option("--results", help="Folder with the results of studies.")] = None,
    crate: Annotated[
        list[Path] | None, typer.Option("--crate", help="Manifest of a crate whose documentation is in OUT/rust.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Remove an earlier site first.")] = False,
) -> None:
    """Write the pages of the site that come from the catalogue, the fabrics and the studies."""
    for name, folder in (("--catalog", catalog), ("--results", results)):
        if folder is not None and not folder.is_dir():
            raise LabError(f"{name} {folder}", "is not a folder", "name a folder that exists")
    if fresh:
        start_afresh(out)
    home = find_home()
    own = catalog.resolve() if catalog else None
    made = Site(out, home, Softband(find_softband(), home, own), own, results)
    count = made.write()
    if crate:
        made.write_rust(crate)
    Console().print(f"{count} parts: {out / 'catalog' / 'index.html'}", soft_wrap=True, highlight=False)


def site_links(
    folder: Annotated[Path, typer.Argument(help="Folder of the site.")],
    external: Annotated[bool, typer.Option("--external", help="List the addresses outside the site.")] = False,
) -> None:
    """Check each link and anchor within a folder of HTML pages. The exit status is 1 if a link is broken."""
    checked = check_links(folder)
    if not checked.pages:
        raise LabError(folder, "has no HTML pages", "run `make site` first")
    for fault in checked.faults:
        print(fault)
    for address in sorted(checked.external) if external else []:
        print(address)
    print(
        f"{checked.pages} pages, {checked.internal} links within, {len(checked.faults)} broken; "
        f"{len(checked.external)} addresses outside, not asked for"
    )
    raise typer.Exit(1 if checked.faults else 0)


def _own_arguments(command: str) -> list[str]:
    """Returns the words after the command, both of `python -m softband_lab COMMAND` and of its own script."""
    arguments = sys.argv[1:]
    return arguments[1:] if arguments[:1] == [command] else arguments


def _parse_vls(text: str) -> list[int]:
    try:
        return sorted({int(word) for word in text.split(",")})
    except ValueError:
        allowed = ", ".join(str(count) for count in OPERATIONAL_VLS_CODE)
        raise LabError("--vls", f"`{text}` is not a list of numbers", f"some of {allowed}, with commas") from None


def _run(app: Callable[..., object], name: str) -> None:
    try:
        app(prog_name=name)
    except LabError as error:
        Console(stderr=True).print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True, highlight=False)
        sys.exit(2)
    except OSError as error:
        text = escape(f"{error.filename or name}: {error.strerror or error}")
        Console(stderr=True).print(f"[bold red]error:[/] {text}", soft_wrap=True, highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


def _single(command: Callable[..., None]) -> typer.Typer:
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command()(command)
    return app


def study_main() -> None:
    _run(_single(study), "softband study")


def what_if_main() -> None:
    _run(_single(what_if), "softband what-if")


def model_sweep_main() -> None:
    _run(_single(model_sweep), "softband model-sweep")


def compare_main() -> None:
    _run(_single(compare), "softband compare")


def dask_main() -> None:
    """Replaces this process by Dask's command, so that schedulers and workers have the versions of the lab."""
    check_dask("softband dask")
    os.execv(sys.executable, [sys.executable, "-P", "-m", "dask", *_own_arguments("dask")])


def main() -> None:
    if sys.argv[1:2] == ["dask"]:
        _run(lambda prog_name: dask_main(), "softband dask")  # noqa: ARG005
        return
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)
    app.command("study")(study)
    app.command("what-if")(what_if)
    app.command("model-sweep")(model_sweep)
    app.command("compare")(compare)
    app.command("site")(site)
    app.command("site-links")(site_links)
    _run(app, "softband")
