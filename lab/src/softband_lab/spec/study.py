"""A study as data: tests, figures, curves. The runs follow from the figures."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from softband_lab.base.softband import MpiJob, Program
from softband_lab.base.strict import Strict
from softband_lab.base.units import BINARY_MEGABYTE

# Of verbs, or of sockets: IPoIB, SDP, and Ethernet without RDMA.
Transport = Literal["RC", "UC", "UD", "IPoIB", "SDP", "Ethernet"]
Direction = Literal["uni", "bi", "pingpong"]
# Of a trace that plays over TCP.
TCP_TRANSPORTS = ("Ethernet", "IPoIB")
# The rates of a host's computation in the further runs of a test with a recording, against the rate of its part.
HOST_RATES = {"slower": 0.8, "faster": 1.2}
# Words in braces that the command of a test may contain.
COMMAND_WORDS = {"transport", "iterations", "options", "size", "sizes", "smallest", "largest"}


class PowerRange(Strict):
    """Message sizes: the powers of two from `from` to `to`, both included.

    `halfway`: also the sizes halfway between two powers, as NetPIPE has them (1, 2, 3, 4, 6, 8).
    `only`: these sizes of the range, and no other.
    """

    smallest: int = Field(alias="from", gt=0)
    largest: int = Field(alias="to", gt=0)
    halfway: bool = False
    only: list[Annotated[int, Field(gt=0)]] = Field(default_factory=list)

    def sizes(self) -> list[int]:
        every = self._range()
        return [size for size in every if size in self.only] if self.only else every

    def outside(self) -> list[int]:
        """Returns the sizes of `only` that the range does not have."""
        every = self._range()
        return [size for size in self.only if size not in every]

    def _range(self) -> list[int]:
        sizes, power = [], self.smallest
        while power <= self.largest:
            sizes.append(power)
            between = power + power // 2
            if self.halfway and power > 1 and between <= self.largest:
                sizes.append(between)
            power *= 2
        return sizes


class Need(Strict):
    """A property of the model, or programs of the machine, that a test needs. Without it, its claims are not testable.

    The property is there if `command` succeeds on the test's server host. `transports`: the runs that need it.
    """

    name: str = Field(min_length=1)
    command: str = ""
    programs: list[Annotated[str, Field(pattern=r"^[A-Za-z0-9._+-]+$")]] = Field(default_factory=list)
    transports: Annotated[list[Transport], Field(min_length=1)]


class Computation(Strict):
    """The time of computation of an MPI job: a file in the study's folder, and the work for the host part.

    `kind`: as for --compute-kind, one kind of work or amounts of several. `rate`: as for --compute-rate, if the
    recording lacks it. A file that ends with .gz is compressed.
    """

    recording: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    # The part whose processor computes. Empty: that of the first host.
    host: str = ""
    rate: str = ""

    def options(self, host: str, rate: float) -> tuple[str, ...]:
        """Returns the options for a host part that computes at `rate` times its own rates."""
        recorded = ("--compute-rate", self.rate) if self.rate else ()
        other = ("--compute-factor", f"{1.0 / rate:.6g}") if rate != 1.0 else ()
        return ("--compute-kind", self.kind, "--compute-host", host, *recorded, *other)


class Trace(Strict):
    """A recorded MPI program that plays without the program. `operations`: its own count of them.

    `softband model` plays it over RC. Over sockets, `softband-tcpplay` plays it on the `interfaces` of the hosts.
    """

    computation: Computation
    ranks_per_host: int = Field(ge=1)
    operations: float = Field(default=0.0, ge=0, allow_inf_nan=False)
    # The interface of each transport over sockets, such as `eth1`.
    interfaces: dict[Transport, str] = Field(default_factory=dict)


class MpiProgram(Strict):
    """An MPI job, whose rank 0 prints the table. Ranks share the hosts evenly, in blocks.

    `program`: its name, and its arguments with the words of commands. `environment`: variables of a transport's runs.
    """

    program: str = Field(min_length=1)
    # Compiler of an MPI other than the user's first.
    compiler: str = ""
    ranks: int = Field(ge=1)
    hosts: Annotated[list[str], Field(min_length=1)]
    environment: dict[Transport, dict[str, str]] = Field(default_factory=dict)
    computation: Computation | None = None


class Test(Strict):
    """The measurement of a quantity: two commands or an MPI job, and the column that a figure shows.

    `like`: a test without `like`, whose other keys this one has as well. `options`: the word `{options}` of commands.
    """

    __test__ = False  # not a pytest class

    like: str = ""
    title: str
    quantity: str
    unit: str
    direction: Direction
    column: str
    iterations: int = Field(gt=0)
    server_host: str = ""
    server: str = ""
    client_host: str = ""
    client: str = ""
    options: str = ""
    mpi: MpiProgram | None = None
    trace: Trace | None = None
    run_per_size: bool = False
    needs: Need | None = None
    sizes: dict[Transport, PowerRange]

    @property
    def computation(self) -> Computation | None:
        """The time of computation of the job or the replay."""
        source = self.trace or self.mpi
        return source.computation if source else None

    @property
    def is_latency(self) -> bool:
        """Whether the column is a latency, whose lower value is better."""
        return self.column.startswith("latency")

    def expected_sizes(self, transport: Transport) -> list[int]:
        return self.sizes[transport].sizes()

    def commands(self) -> list[tuple[str, str]]:
        """Returns the commands with their keys."""
        if self.trace is not None:
            return []
        if self.mpi is not None:
            return [("mpi", self.mpi.program)]
        return [("server", self.server), ("client", self.client)]

    def hosts(self, client_host: str | None = None) -> list[tuple[str, str]]:
        """Returns the hosts with their keys."""
        if self.trace is not None:
            return []
        if self.mpi is not None:
            return [("mpi", host) for host in self.mpi.hosts]
        return [("server_host", self.server_host), ("client_host", client_host or self.client_host)]

    def programs(self, transport: Transport, size: int | None, client_host: str | None = None) -> list[Program]:
        words = self._words(transport, size)
        return [
            Program(self.server_host, self.server.format(**words)),
            Program(client_host or self.client_host, self.client.format(**words)),
        ]

    def job(self, mpi: MpiProgram, transport: Transport, size: int | None, host: str = "", rate: float = 1.0) -> MpiJob:
        """Returns the job of a run. `rate`: the rate of the host's computation, against that of its part."""
        program, *arguments = shlex.split(mpi.program.format(**self._words(transport, size)))
        variables = tuple(mpi.environment.get(transport, {}).items())
        work = mpi.computation
        compute = work.options(host, rate) if work else ()
        return MpiJob(program, tuple(arguments), mpi.ranks, tuple(mpi.hosts), variables, compute, mpi.compiler)

    def _words(self, transport: Transport, size: int | None) -> dict[str, str | int | None]:
        range_ = self.sizes[transport]
        words: dict[str, str | int | None] = {
            "transport": transport,
            "iterations": self.iterations,
            "options": self.options,
            "size": size,
            "sizes": ",".join(map(str, range_.sizes())),
            "smallest": range_.smallest,
            "largest": range_.largest,
        }
        assert set(words) == COMMAND_WORDS
        return words


@dataclass(frozen=True)
class Run:
    """One run: a fabric, a transport, a test. Curves of several figures may share it."""

    fabric: str
    transport: Transport
    test: str
    client_host: str | None = None

    @property
    def id(self) -> str:
        return f"{Path(self.fabric).stem}-{self.transport.lower()}-{self.test}"


class Curve(Strict):
    name: str
    fabric: str
    transport: Transport | None = None
    # The host of the client, if this fabric has another host name than the test.
    client_host: str | None = None
    # The name in legends and descriptions. Empty: the name of the curve.
    label: str = ""
    # A test in place of the figure's.
    test: str = ""

    @property
    def shown(self) -> str:
        return self.label or self.name


class Figure(Strict):
    number: int = Field(gt=0)
    title: str
    section: str
    caption: str
    transport: Transport
    # Curves over the message size, or a bar with the best value of each curve, as in a paper's table.
    chart: Literal["curves", "bars"] = "curves"
    tests: list[str]
    curves: Annotated[list[Curve], Field(min_length=1)]

    def transport_of(self, curve: Curve) -> Transport:
        return curve.transport or self.transport

    def run_of(self, curve: Curve, test: str) -> Run:
        return Run(curve.fabric, self.transport_of(curve), curve.test or test, curve.client_host)


class StudyHead(Strict):
    name: str
    title: str
    source: str
    summary: str
    # A file beside study.toml, or in references/.
    claims: str
    # Bytes of an MB in the source: 1048576 as in perftest, or 1000000.
    megabyte: Literal[1_000_000, 1_048_576] = BINARY_MEGABYTE
    seed: int = Field(default=1, ge=0, lt=1 << 63)
    timeout_seconds: float = Field(default=900.0, gt=0, allow_inf_nan=False)
    quick_figures: list[int]
    # Whether the page has charts of the model's values against the published ones, by family.
    families: bool = False
    # A table in references/: the time of a small message on one queue pair, by system and class of host.
    host_rules: str = ""


class Generation(Strict):
    """HCAs whose claims form one table of the accuracy study."""

    title: str
    hcas: list[str]


class Targets(Strict):
    """The largest allowed deviations of predicted values, in percent."""

    median_percent: float
    worst_percent: float
    # Studies whose rows have the targets of their own. Empty: only all studies together have targets.
    studies: list[str] = Field(default_factory=list)


class Accuracy(Strict):
    """The settings of a study about the deviations of other studies and of its own claims."""

    includes: list[str]
    targets: Targets
    generations: list[Generation]


class StudyFile(Strict):
    study: StudyHead
    accuracy: Accuracy | None = None
    tests: dict[str, Test]
    figures: list[Figure]


@dataclass(frozen=True)
class Study:
    """A checked study with its folder."""

    folder: Path
    head: StudyHead
    tests: dict[str, Test]
    figures: list[Figure]
    accuracy: Accuracy | None = None

    def claims_path(self, home: Path) -> Path:
        """Returns the path of the claims file: beside study.toml, else in references/."""
        own = self.folder / self.head.claims
        return own if own.is_file() else home / "references" / self.head.claims

    def runs(self, quick: bool = False) -> list[Run]:
        """Returns every run once, in the order of the figures."""
        found: dict[Run, None] = {}
        for figure in self.chosen_figures(quick):
            for test in figure.tests:
                for curve in figure.curves:
                    found[figure.run_of(curve, test)] = None
        return list(found)

    def chosen_figures(self, quick: bool) -> list[Figure]:
        return [figure for figure in self.figures if not quick or figure.number in self.head.quick_figures]

    def uses(self) -> Iterator[tuple[Run, Figure, Curve]]:
        for figure in self.figures:
            for test in figure.tests:
                for curve in figure.curves:
                    yield figure.run_of(curve, test), figure, curve

    def run_of(self, curve_name: str, test: str) -> Run | None:
        for run, _figure, curve in self.uses():
            if curve.name == curve_name and run.test == test:
                return run
        return None
