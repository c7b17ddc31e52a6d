"""Campaigns: many runs on many workers. The loss of a worker does not change the data set."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest
from conftest import DIST, FABRICS, ROOT, until

TABLES = ("runs", "flows", "ports", "hot_ports", "warnings")
SIZES = [1024 * number for number in range(1, 13)]
SWEEP = f"bytes={','.join(map(str, SIZES))}"
# The first attempt at this run does not end.
HOSTAGE = SIZES[5]

# Wraps `softband` and records each run with the id of its parent process.
RECORDER = """#!/bin/sh
case "$*" in *--check* | --version | "fabric "*) exec {softband} "$@" ;; esac
echo "$PPID $*" >>{log}
case "$*" in
*"--bytes {hostage} "*)
    if [ -e {folder}/take-hostage ]; then
        rm {folder}/take-hostage
        echo "$PPID $$" >{folder}/hostage.part && mv {folder}/hostage.part {folder}/hostage
        exec sleep 100
    fi
    ;;
esac
exec {softband} "$@"
"""


@dataclass
class Campaigns:
    """A `softband` of its own that records its runs, and a Dask cluster on this machine."""

    folder: Path
    children: list[subprocess.Popen[bytes]] = field(default_factory=list)
    address: str = ""

    def __post_init__(self) -> None:
        tree = self.folder / "tree"
        (tree / "bin").mkdir(parents=True)
        text = RECORDER.format(softband=DIST / "bin" / "softband", log=self.log, folder=self.folder, hostage=HOSTAGE)
        self.script(tree / "bin" / "softband", text)

    @property
    def log(self) -> Path:
        return self.folder / "runs.log"

    @staticmethod
    def script(path: Path, text: str) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
        return path

    def environment(self, **more: str) -> dict[str, str]:
        # Dask is not part of the installation. It comes from the tests' own environment.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        ours = {"SOFTBAND_BIN": str(self.folder / "tree" / "bin" / "softband"), "SOFTBAND_HOME": str(DIST), "PATH": path}
        return {**os.environ, **ours, **more}

    def begin(self, *words: str, **more: str) -> subprocess.Popen[bytes]:
        command = [str(DIST / "bin" / f"softband-{words[0]}"), *words[1:]]
        out = self.folder / f"{len(self.children)}-{words[0]}.log"
        with out.open("wb") as sink:
            child = subprocess.Popen(command, cwd=self.folder, env=self.environment(**more), stdout=sink, stderr=sink)
        self.children.append(child)
        return child

    def said(self, child: subprocess.Popen[bytes]) -> str:
        (path,) = self.folder.glob(f"{self.children.index(child)}-*.log")
        return path.read_text()

    def ends(self, child: subprocess.Popen[bytes], status: int = 0) -> str:
        assert child.wait(timeout=60) == status, self.said(child)
        return " ".join(self.said(child).split())

    def worker(self, **more: str) -> subprocess.Popen[bytes]:
        options = ("--nthreads", "1", "--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
        return self.begin("dask", "worker", self.address, *options, **more)

    def start_cluster(self, workers: int) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{port}"
        self.begin("dask", "scheduler", "--host", "127.0.0.1", "--port", str(port), "--no-dashboard")
        started = [self.worker() for _ in range(workers)]
        assert until(lambda: all("Registered to" in self.said(worker) for worker in started))

    def sweep(self, out: str, *words: str, values: str = SWEEP) -> subprocess.Popen[bytes]:
        fabric = str(FABRICS / "three-hosts.toml")
        return self.begin("model-sweep", "--sweep", values, "--out", out, *words, "--", fabric, "incast", "--messages", "2")

    def take_hostage(self) -> None:
        (self.folder / "take-hostage").touch()

    def hostage(self) -> tuple[int, int]:
        """Returns two process ids: the worker of the run that does not end, and the run."""
        path = self.folder / "hostage"
        assert until(path.exists)
        asker, run = map(int, path.read_text().split())
        path.unlink()
        return asker, run

    def runs(self) -> Counter[int]:
        words = [line.split() for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return Counter(int(line[line.index("--bytes") + 1]) for line in words if "--bytes" in line)

    def finished(self, out: str) -> set[int]:
        return {int(path.stem.split("-")[1]) for path in (self.folder / out / "data" / "runs").glob("*.parquet")}

    def data_set(self, out: str) -> dict[str, pl.DataFrame]:
        found = {name: pl.read_parquet(self.folder / out / "data" / name / "**/*.parquet") for name in TABLES}
        return {name: table.sort(table.columns) for name, table in found.items()}

    def end(self) -> None:
        for child in self.children:
            if child.poll() is None:
                child.kill()
            child.wait()


@pytest.fixture
def campaigns(tmp_path: Path) -> Iterator[Campaigns]:
    campaigns = Campaigns(tmp_path)
    yield campaigns
    campaigns.end()


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Campaigns]:
    campaigns = Campaigns(tmp_path_factory.mktemp("cluster"))
    campaigns.start_cluster(3)
    yield campaigns
    campaigns.end()


def is_running(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(") ")[2][0] != "Z"
    except OSError:
        return False


def test_a_killed_worker_costs_its_run_only_and_the_data_set_is_that_of_one_machine(cluster: Campaigns) -> None:
    cluster.take_hostage()
    campaign = cluster.sweep("far", "--cluster", cluster.address)
    worker, run = cluster.hostage()
    assert worker in {child.pid for child in cluster.children[1:4]}
    # Wait until the results of the worker's finished runs are back. The loss of the worker would
    # repeat them otherwise.
    assert until(lambda: cluster.finished("far") == set(SIZES) - {HOSTAGE})
    os.kill(worker, signal.SIGKILL)
    said = cluster.ends(campaign)
    assert "12 finished, 0 of them kept" in said
    assert cluster.finished("far") == set(SIZES)
    assert cluster.runs() == Counter([*SIZES, HOSTAGE])
    assert until(lambda: not is_running(run)), "the run outlived its worker"
    assert len({line.split()[0] for line in cluster.log.read_text().splitlines()}) == 3  # every worker did something
    cluster.ends(cluster.sweep("near", "--jobs", "1"))
    far, near = cluster.data_set("far"), cluster.data_set("near")
    assert all(far[name].equals(near[name]) for name in TABLES)
    assert far["runs"]["completion_ps"].n_unique() == len(SIZES)
    assert far["flows"].join(far["runs"], on="run").height == 2 * len(SIZES)
    assert (cluster.folder / "far" / "runs.csv").read_bytes() == (cluster.folder / "near" / "runs.csv").read_bytes()


def test_questions_of_the_engine_run_on_workers_too(cluster: Campaigns) -> None:
    words = ("what-if", "two-hosts", "--cable", "cx4", "--cable-length", "1m,2m", "--vls", "8", "--command", "ib_send_bw -s 65536 -n 50")
    cluster.ends(cluster.begin(*words, "--out", "what-if-far", "--cluster", cluster.address))
    cluster.ends(cluster.begin(*words, "--out", "what-if-near"))
    far, near = (cluster.folder / f"what-if-{place}" for place in ("far", "near"))
    assert (far / "surface.csv").read_bytes() == (near / "surface.csv").read_bytes()
    tables = [pl.read_parquet(place / "data" / "**/*.parquet").drop("wall_seconds") for place in (far, near)]
    assert tables[0].height == 2
    assert tables[0].sort("run").equals(tables[1].sort("run"))


def test_a_full_disk_keeps_what_is_finished_and_the_campaign_goes_on_later(cluster: Campaigns) -> None:
    cluster.log.unlink()
    cluster.ends(cluster.sweep("full", values="bytes=65536,131072"))
    before = cluster.data_set("full")
    words = ("--sweep", "bytes=65536,131072,262144", "--out", "full", "--cluster", cluster.address)
    command = [str(DIST / "bin" / "softband-model-sweep"), *words, "--", str(FABRICS / "three-hosts.toml"), "incast", "--messages", "2"]
    # The limit holds for the files that the campaign writes, not for those of its workers.
    limited = ["prlimit", "--fsize=1024", *command]
    done = subprocess.run(limited, cwd=cluster.folder, env=cluster.environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "full/data/flows/bytes-262144.parquet: cannot be written: File too large" in done.stderr
    assert all(table.equals(before[name]) for name, table in cluster.data_set("full").items())
    assert not list((cluster.folder / "full").rglob("*.part"))
    cluster.ends(cluster.sweep("full", values="bytes=65536,131072,262144"))
    assert cluster.finished("full") == {65536, 131072, 262144}
    assert cluster.runs() == Counter({65536: 1, 131072: 1, 262144: 2})


def test_a_worker_with_another_softband_is_named(campaigns: Campaigns) -> None:
    campaigns.start_cluster(0)
    other = campaigns.script(campaigns.folder / "other/bin/softband", "#!/bin/sh\necho softband 9.9.9\n")
    campaigns.worker(SOFTBAND_BIN=str(other))
    said = campaigns.ends(campaigns.sweep("out", "--cluster", campaigns.address), 2)
    assert "error: worker tcp://127.0.0.1:" in said
    assert f"{other} is softband 9.9.9, the campaign's is softband 0." in said
    assert campaigns.finished("out") == set()


def test_a_campaign_that_was_killed_goes_on_where_it_was(campaigns: Campaigns) -> None:
    campaigns.take_hostage()
    campaign = campaigns.sweep("out", "--jobs", "2")
    asker, run = campaigns.hostage()
    assert asker == campaign.pid
    assert until(lambda: len(campaigns.finished("out")) >= 8)
    campaign.kill()
    campaign.wait()
    assert until(lambda: not is_running(run)), "the run outlived its campaign"
    finished = campaigns.finished("out")
    said = campaigns.ends(campaigns.sweep("out", "--jobs", "2"))
    assert f"12 finished, {len(finished)} of them kept from before" in said
    runs = campaigns.runs()
    assert {size: runs[size] for size in finished} == dict.fromkeys(finished, 1)
    assert campaigns.finished("out") == set(SIZES)
    runs_before = campaigns.runs()
    campaigns.ends(campaigns.sweep("out"))
    assert campaigns.runs() == runs_before


@pytest.mark.parametrize("listens", [False, True])
def test_a_cluster_that_is_not_there_is_named_within_seconds(campaigns: Campaigns, listens: bool) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listens:
            silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        begun = time.monotonic()
        said = campaigns.ends(campaigns.sweep("out", "--cluster", address), 2)
        assert time.monotonic() - begun < 20
    assert f"--cluster {address}: no Dask scheduler answers there help: the address that" in said


def test_slurm_jobs_are_workers(campaigns: Campaigns) -> None:
    campaigns.script(campaigns.folder / "fake/sbatch", FAKE_SBATCH)
    campaigns.script(campaigns.folder / "fake/scancel", '#!/bin/sh\nfor job; do kill -- "-$job"; done\n')
    more = {"PATH": f"{campaigns.folder / 'fake'}:{os.environ['PATH']}", "DASK_JOBQUEUE__SLURM__INTERFACE": "lo", "PYTHONPATH": str(ROOT / "lab/src")}
    words = ["--sweep", "bytes=4096,8192", "--cluster", "slurm", "--jobs", "2", "--out", "out", "--", "three-hosts", "incast"]
    command = [sys.executable, "-m", "softband_lab", "model-sweep", *words]
    done = subprocess.run(command, cwd=campaigns.folder, env=campaigns.environment(**more), capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert campaigns.finished("out") == {4096, 8192}
    jobs = [int(path.stem) for path in (campaigns.folder / "fake").glob("*.job")]
    assert len(jobs) == 2
    assert until(lambda: not any(is_running(job) for job in jobs))


FAKE_SBATCH = """#!/bin/sh
# As Slurm does: keeps the script, and runs it later.
for script; do :; done
folder=$(dirname "$0")
cp "$script" "$folder/$$.sh"
setsid sh "$folder/$$.sh" >"$folder/$$.log" 2>&1 </dev/null &
touch "$folder/$!.job"
echo "Submitted batch job $!"
"""


def test_a_check_of_a_sweep_looks_at_every_run_and_leaves_nothing(campaigns: Campaigns) -> None:
    def check(*words: str) -> subprocess.CompletedProcess[str]:
        command = [str(DIST / "bin" / "softband"), "model", str(FABRICS / "three-hosts.toml"), "incast", "--check", *words]
        return subprocess.run(command, cwd=campaigns.folder, capture_output=True, text=True, timeout=60, check=False)

    done = check("--sweep", "bytes=1,2", "--sweep", "senders=1,2")
    assert (done.returncode, done.stdout.strip()) == (0, "4 runs checked: all of them can be run"), done.stderr
    done = check("--sweep", "bytes=1,2", "--sweep", "senders=1,7")
    assert done.returncode == 2
    assert "cannot run --sweep bytes=2 --sweep senders=7: senders = 7 is out of range" in done.stdout
    assert not (campaigns.folder / "results").exists()


def model(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [str(DIST / "bin" / "softband"), "model", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def test_a_sweep_tells_of_the_credit_loops_of_each_fabric_once_and_keeps_them(tmp_path: Path) -> None:
    text = (FABRICS / "torus-4x4.toml").read_text()
    (tmp_path / "loops.toml").write_text(text.replace("[generate]", "[subnet]\nmax_op_vls = 1\n[generate]"))
    words = ("loops.toml", "permutation", "--messages", "1")
    alone = model(tmp_path, *words, "--check").stderr
    assert alone.count("warning: credit loop: s-") == 8
    for more in (("--check",), ("--out", "seeds"), ("--out", "seeds")):
        done = model(tmp_path, *words, "--sweep", "seed=1,2", *more)
        assert (done.returncode, done.stderr) == (0, f"warnings of all runs:\n{alone}"), done.stdout
    kept = pl.read_parquet(tmp_path / "seeds/data/warnings/*.parquet")
    assert {height for height, in kept.group_by("run").len().select("len").iter_rows()} == {8}
    assert "\n".join(kept.filter(run="seed-1")["warning"]) == alone.rstrip()
    assert pl.read_csv(tmp_path / "seeds/runs.csv")["warnings"].to_list() == [8, 8]
    for more in (("--check",), ("--out", "fabrics")):
        done = model(tmp_path, *words, "--sweep", "generate.hosts_per_switch=1,2", "--sweep", "subnet.max_op_vls=1,2", *more)
        whose = "; ".join(f"--sweep generate.hosts_per_switch={count} --sweep subnet.max_op_vls=1" for count in (1, 2))
        assert (done.returncode, done.stderr) == (0, f"warnings of {whose}:\n{alone}"), done.stdout


def test_what_a_failed_run_did_is_where_its_error_says(tmp_path: Path) -> None:
    done = model(tmp_path, "ring-of-five", "all-to-all", "--sweep", "bytes=4097", "--out", "C")
    assert done.returncode == 1
    assert "  | softband: its results until then are in C/runs/failed/bytes-4097/results\n" in done.stdout
    assert '"ended_by": "' in (tmp_path / "C/runs/failed/bytes-4097/results/model.json").read_text()
    assert "softband-runs-" not in done.stdout + done.stderr
    assert "warnings of all runs:\nring-of-five: warning: credit loop: " in done.stderr


def test_a_flows_file_damaged_in_its_middle_is_made_again(tmp_path: Path) -> None:
    words = ("three-hosts", "incast", "--sweep", "seed=1,2,3", "--bytes", "4096", "--out", "B")
    assert model(tmp_path, *words).returncode == 0
    path = tmp_path / "B/data/flows/seed-2.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:40] + b"\xff" * 160 + whole[200:])
    done = model(tmp_path, *words)
    assert done.returncode == 0
    assert "3 finished, 2 of them kept from before" in done.stdout
    assert done.stderr == "B/data/flows/seed-2.parquet: is not as it was written: the run starts again\n"
    assert path.read_bytes() == whole
    assert "3 finished, 3 of them kept from before" in model(tmp_path, *words).stdout


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("--sweep", "byts=1,2"), "--sweep byts: is not a key help: one of bytes, messages"),
        (("--sweep", "senders=1,7"), "--sweep senders=7: "),
        (("--sweep", "subnet.colour=1,2"), "--sweep subnet.colour=1: "),
        (("--sweep", "bytes=1,2", "--bytes", "3"), "--sweep bytes: there is a --bytes, too"),
    ],
)
def test_a_sweep_that_makes_no_sense_is_refused_before_anything_runs(campaigns: Campaigns, words: tuple[str, ...], wanted: str) -> None:
    command = [str(DIST / "bin" / "softband"), "model", str(FABRICS / "three-hosts.toml"), "incast", "--out", "out", *words]
    done = subprocess.run(command, cwd=campaigns.folder, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert wanted in " ".join(done.stderr.split())
    assert not list((campaigns.folder).rglob("*.parquet"))
