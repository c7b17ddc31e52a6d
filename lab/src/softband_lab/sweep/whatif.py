"""What-if questions: bandwidth over cable length, lanes and link rate, and the longest cable at full bandwidth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from rich.console import Console

from softband_lab.base.errors import LabError, NotRun
from softband_lab.base.fabricfile import (
    Document,
    cables,
    load_toml,
    parse_length_m,
    plain,
    two_hosts,
    with_cable,
    with_rate,
    with_vls,
)
from softband_lab.base.places import fabric_path
from softband_lab.base.softband import Program, Softband
from softband_lab.base.strict import Strict, parse_model
from softband_lab.base.tables import Kind, Table
from softband_lab.campaign.cluster import Cluster
from softband_lab.campaign.engine_job import EngineJob, JobResult, Step
from softband_lab.campaign.inputs import InputFile, derived_fabric, leave_derived
from softband_lab.campaign.runner import Outcome, run_jobs
from softband_lab.campaign.subnet_manager import SubnetManager, managed_by
from softband_lab.sweep.bottleneck import Bottleneck, find_bottleneck, longest_wait, lost_to, peers_of, read_counters
from softband_lab.sweep.in_flight import (
    is_bandwidth_test,
    link_bytes_per_second,
    messages_needed,
    number_of,
    says_how_many,
)

FULL_SHARE = 0.99  # share of the shortest cable's bandwidth that counts as full
_LADDER = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0)  # lengths per decade when a range has no step
_TIMEOUT_SECONDS = 600.0


class WhatIfDefaults(Strict):
    """The defaults of studies/what-if.toml."""

    fabric: str
    cable_part: str
    fixed_parts: list[str]
    lengths: str
    vls: list[int]
    command: str
    server_host: str
    client_host: str
    size_bytes: int
    seed: int = 1


@dataclass(frozen=True, order=True)
class Point:
    """A point of the surface. None keeps the value of the fabric file."""

    vls: int | None
    rate: str | None
    length_m: float

    @property
    def name(self) -> str:
        lanes = "own" if self.vls is None else str(self.vls)
        return f"{plain(self.length_m)}m-{lanes}-vls-{(self.rate or 'own').lower()}-rate"


@dataclass(frozen=True)
class Limit:
    """The longest cable at full bandwidth for a number of lanes and a rate."""

    vls: int | None
    rate: str | None
    full_mib_s: float
    longest_m: float
    first_short_m: float | None  # None if no tested length falls short
    # The limits with the longest cable at full bandwidth, and with the first that falls short.
    full_by: Bottleneck | None = None
    short_by: Bottleneck | None = None


@dataclass
class Question:
    """A fabric, the cables to vary and the command. Measures each point once."""

    softband: Softband
    out: Path
    fabric: Path
    part: str
    varied: list[int]
    command: str
    defaults: WhatIfDefaults
    size_bytes: int
    cluster: Cluster
    console: Console
    manager: SubnetManager = SubnetManager.BUILTIN
    outcome: Outcome[JobResult] = field(default_factory=Outcome)
    known: dict[Point, float] = field(default_factory=dict)
    commands: dict[Point, str] = field(default_factory=dict)
    # The limit of each point, and its longest wait for credits.
    bottlenecks: dict[Point, tuple[Bottleneck, Bottleneck | None]] = field(default_factory=dict)

    def count_messages(self, points: list[Point]) -> None:
        """Adds the number of messages to the command, unless it has one: by the fastest link and the longest cable.

        All points have the same number. Their loss at the start is below the least loss that counts.
        """
        if says_how_many(self.command) or not is_bandwidth_test(self.command):
            return
        needed = 0
        for rate in dict.fromkeys(point.rate for point in points):
            longest = max((point for point in points if point.rate == rate), key=lambda point: point.length_m)
            path = self._derived(longest).leave(self.out)
            metres = longest.length_m * len(self.varied)
            shown = self.softband.show(path)
            fastest = link_bytes_per_second(shown.stdout) if shown.exit_status == 0 else 0.0
            needed = max(needed, messages_needed(fastest, metres, self.size_bytes))
        self.command = f"{self.command} -n {needed}"

    def measure(self, points: list[Point], quiet: bool = False) -> None:
        """Measures the bandwidth of each point that is not known yet."""
        made = [(point, self._job(point)) for point in points if point not in self.known]
        jobs = {job.id: (point, job) for point, job in made}
        leave_derived([job.fabric for _, job in made], self.out)
        console = Console(quiet=True) if quiet else self.console
        outcome = run_jobs([job for _, job in jobs.values()], self.softband, self.out, self.cluster, console)
        self.outcome.failures.update(outcome.failures)
        self.outcome.reused += outcome.reused
        self.outcome.interrupted |= outcome.interrupted
        for job_id, result in outcome.results.items():
            point = jobs[job_id][0]
            self.known[point] = result.rows[0].measurement.bw_average_mib_s or 0.0
            self.commands[point] = result.rows[0].command
            self._find_bottleneck(point, job_id)
        if outcome.interrupted:
            raise KeyboardInterrupt

    def limits(self, points: list[Point]) -> list[Limit]:
        """Bisects, for each (lanes, rate), between the last full length and the first short one, to the metre."""
        brackets = {key: self._bracket(lengths) for key, lengths in self._groups(points).items() if lengths}
        open_ones = dict(brackets)
        while open_ones:
            middles = {}
            for key, (good, bad, full) in list(open_ones.items()):
                if bad is None or bad.length_m - good.length_m <= 1:
                    del open_ones[key]
                    continue
                middle = Point(key[0], key[1], float(round((good.length_m + bad.length_m) / 2)))
                if middle.length_m in (good.length_m, bad.length_m):
                    del open_ones[key]
                    continue
                middles[key] = (middle, good, bad, full)
            self.measure([middle for middle, *_ in middles.values()], quiet=True)
            for key, (middle, good, bad, full) in middles.items():
                if middle not in self.known:
                    del open_ones[key]  # the run failed and is reported
                    continue
                is_full = self.known[middle] >= FULL_SHARE * full
                brackets[key] = open_ones[key] = (middle, bad, full) if is_full else (good, middle, full)
        return [
            Limit(
                vls,
                rate,
                full,
                good.length_m,
                bad.length_m if bad else None,
                self.bottlenecks[good][0] if good in self.bottlenecks else None,
                self._lost_to(good, bad) if bad else None,
            )
            for (vls, rate), (good, bad, full) in brackets.items()
        ]

    def _lost_to(self, good: Point, bad: Point) -> Bottleneck | None:
        if good not in self.bottlenecks or bad not in self.bottlenecks:
            return None
        lost = 1.0 - self.known[bad] / self.known[good]
        return lost_to(self.bottlenecks[good], self.bottlenecks[bad], lost)

    def table(self) -> Table:
        rows = [
            {
                "fabric": self.fabric.name,
                "length_m": point.length_m,
                "data_vls": point.vls,
                "rate": point.rate,
                "size_bytes": self.size_bytes,
                "bw_average_mib_s": value,
                "command": self.commands[point],
            }
            for point, value in sorted(self.known.items(), key=lambda item: _sort_key(item[0]))
        ]
        schema = {
            "fabric": Kind.STRING,
            "length_m": Kind.FLOAT,
            "data_vls": Kind.INT,
            "rate": Kind.STRING,
            "size_bytes": Kind.INT,
            "bw_average_mib_s": Kind.FLOAT,
            "command": Kind.STRING,
        }
        return Table.of(rows, schema)

    def _groups(self, points: list[Point]) -> dict[tuple[int | None, str | None], list[Point]]:
        groups: dict[tuple[int | None, str | None], list[Point]] = {}
        for point in sorted(points, key=_sort_key):
            group = groups.setdefault((point.vls, point.rate), [])
            if point in self.known:
                group.append(point)
        return groups

    def _bracket(self, points: list[Point]) -> tuple[Point, Point | None, float]:
        full = self.known[points[0]]
        good = points[0]
        for point in points[1:]:
            if self.known[point] < FULL_SHARE * full:
                return good, point, full
            good = point
        return good, None, full

    def _find_bottleneck(self, point: Point, job_id: str) -> None:
        counters = read_counters(self.out / "runs" / job_id)
        messages = number_of(self.command)
        # Without the limits of HCAs, an idle fabric looks like a busy slot.
        if counters is None or "hcas" not in counters or messages is None or not self.known[point]:
            return
        # perftest adds the bandwidths of both directions.
        ways = 2 if "-b" in self.command.split() else 1
        seconds = ways * messages * self.size_bytes / (self.known[point] * 2**20)
        peers = peers_of(load_toml(self.fabric))
        self.bottlenecks[point] = find_bottleneck(counters, seconds, peers), longest_wait(counters, seconds, peers)

    def _derived(self, point: Point) -> InputFile:
        """Returns the fabric of a point."""
        document = derive(load_toml(self.fabric), point, self.varied, self.part)
        return derived_fabric(f"{self.fabric.stem}-{point.name}", document)

    def _job(self, point: Point) -> EngineJob:
        wanted = (self.defaults.server_host, self.defaults.client_host)
        server, client = two_hosts(load_toml(self.fabric), self.fabric, wanted)
        programs = [Program(server, self.command), Program(client, f"{self.command} {server}")]
        fabric = self._derived(point)
        run_id = f"{Path(fabric.label).stem}-{self.size_bytes}"
        job = EngineJob(run_id, fabric, [Step(programs)], self.defaults.seed, _TIMEOUT_SECONDS, [self.size_bytes])
        return managed_by(self.manager, job)


@dataclass
class ClaimProber:
    """Makes the runs on changed fabrics that claims need."""

    home: Path
    softband: Softband
    out: Path
    cluster: Cluster
    manager: SubnetManager = SubnetManager.BUILTIN

    def longest_m(self, fabric: str, varied: list[int], low_m: float, high_m: float) -> float:
        question = self._question(fabric, varied, options=None)
        points = [Point(None, None, length) for length in sorted({1.0, low_m, high_m})]
        self._measure(question, points)
        return question.limits(points)[0].longest_m

    def bandwidth(self, fabric: str, varied: list[int], length_m: float, data_vls: int, options: str) -> float:
        question = self._question(fabric, varied, options)
        point = Point(data_vls, None, length_m)
        self._measure(question, [point])
        return question.known[point]

    def _question(self, fabric: str, varied: list[int], options: str | None) -> Question:
        defaults = load_defaults(self.home)
        command = defaults.command if options is None else f"{defaults.command.split()[0]} -F {options}"
        return Question(
            self.softband,
            self.out,
            fabric_path(self.home, fabric),
            defaults.cable_part,
            varied,
            command,
            defaults,
            message_size(command, defaults.size_bytes),
            self.cluster,
            Console(quiet=True),
            self.manager,
        )

    def _measure(self, question: Question, points: list[Point]) -> None:
        question.count_messages(points)
        question.measure(points, quiet=True)
        for failure in question.outcome.failures.values():
            last = failure.last_lines[-1] if failure.last_lines else ""
            raise NotRun(f"the run {failure.id} failed: {failure.reason} {last}".strip())


def load_defaults(home: Path) -> WhatIfDefaults:
    path = home / "studies" / "what-if.toml"
    return parse_model(WhatIfDefaults, load_toml(path), path)


def derive(document: Document, point: Point, varied: list[int], part: str) -> Document:
    changed = with_cable(document, varied, point.length_m, part)
    if point.vls is not None:
        changed = with_vls(changed, point.vls)
    if point.rate is not None:
        changed = with_rate(changed, point.rate)
    return changed


def choose_cables(document: Document, path: Path, named: list[str], fixed_parts: list[str]) -> list[int]:
    """Returns the indices of the cables to vary: those named by part or by an end, else all without a fixed part."""
    found = cables(document, path)
    wanted: Callable[[dict[str, str]], bool]
    if named:

        def wanted(cable: dict[str, str]) -> bool:
            return any(name in (cable.get("part"), cable.get("from"), cable.get("to")) for name in named)

    else:

        def wanted(cable: dict[str, str]) -> bool:
            return not any(fnmatch(str(cable.get("part")), pattern) for pattern in fixed_parts)

    chosen = [index for index, cable in enumerate(found) if wanted(cable)]
    if not chosen:
        parts = ", ".join(f"{cable.get('part')} ({cable.get('from')} to {cable.get('to')})" for cable in found)
        raise LabError(f"{path}: [[cables]]", "none is to be varied", f"name some with --cable; the file has: {parts}")
    return chosen


def parse_lengths(text: str) -> list[float]:
    """Returns the metres of `1m,10m,50m`, `1m..300m` (some per decade) or `10m..100m:10m` (steps)."""
    if ".." not in text:
        return sorted({parse_length_m(part, "--cable-length") for part in text.split(",")})
    span, _, step = text.partition(":")
    low_text, _, high_text = span.partition("..")
    low, high = (parse_length_m(part, "--cable-length") for part in (low_text, high_text))
    if low >= high:
        raise LabError("--cable-length", f"`{text}` runs backwards", "the shorter length first, as in `1m..300m`")
    if step:
        width = parse_length_m(step, "--cable-length")
        if width <= 0:
            raise LabError("--cable-length", "the step is 0", "a step such as `10m`")
        count = int((high - low) / width + 1e-9)
        return sorted({*(_decimal(low + index * width) for index in range(count + 1)), high})
    ladder = [_decimal(base * 10**power) for power in range(-2, 5) for base in _LADDER]
    return sorted({low, high, *(length for length in ladder if low < length < high)})


def _decimal(length_m: float) -> float:
    """Removes the rounding error of binary fractions."""
    return round(length_m, 9)


def message_size(command: str, default: int) -> int:
    """Returns the bytes of the option `-s` of a perftest command, or the default."""
    words = command.split()
    for option in ("-s", "--size"):
        if option in words[:-1]:
            return int(words[words.index(option) + 1])
    return default


def _sort_key(point: Point) -> tuple[str, int, float]:
    return (point.rate or "", point.vls or 0, point.length_m)
