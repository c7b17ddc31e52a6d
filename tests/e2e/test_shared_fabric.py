"""A fabric that processes share although namespaces and users keep them apart, as containers do."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from conftest import WAIT_SECONDS, line_of, until

APART = ("unshare", "--user", "--map-root-user", "--net", "--pid", "--fork", "--mount-proc", "--kill-child")
IS_ROOT = os.getuid() == 0


@dataclass
class Containers:
    """Starts commands as other users in user, process, network and mount namespaces of their own."""

    binary: Path
    home: Path
    fabric: Path
    folder: Path
    started: list[subprocess.Popen[str]] = field(default_factory=list)

    def start(self, user: int, *command: str) -> subprocess.Popen[str]:
        # An ordinary user cannot become another. The namespaces remain.
        become = ("setpriv", "--reuid", str(60_000 + user), "--regid", "60000", "--clear-groups") if IS_ROOT else ()
        script = 'ip link set lo up; exec "$@"'
        environment = {**os.environ, "SOFTBAND_HOME": str(self.home), "SOFTBAND_FABRIC": str(self.fabric)}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        program = subprocess.Popen([*become, *APART, "sh", "-c", script, "sh", *command], cwd="/", env=environment, **pipes)
        self.started.append(program)
        return program

    def up(self) -> subprocess.Popen[str]:
        engine = self.start(0, str(self.binary), "up")
        line = line_of(engine)
        assert "is up" in line, (line, engine.communicate(timeout=WAIT_SECONDS))
        return engine

    def on(self, host: str, user: int, *command: str) -> subprocess.Popen[str]:
        return self.start(user, str(self.binary), "exec", host, "--", *command)

    def end(self, program: subprocess.Popen[str]) -> str:
        out, errors = program.communicate(timeout=WAIT_SECONDS)
        assert program.returncode == 0, (out, errors)
        return out

    def say(self, user: int, *words: str) -> str:
        return self.end(self.start(user, str(self.binary), *words))


@pytest.fixture
def containers(softband: Any, tmp_path: Path) -> Iterator[Containers]:
    probe = subprocess.run([*APART, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"nobody may make namespaces here: {probe.stderr.strip()}")
    shutil.copy(softband.binary, tmp_path / "softband")
    home = Path(os.environ.get("SOFTBAND_HOME", softband.binary.parents[1]))
    for folder in ("catalog", "fabrics", "lib"):
        shutil.copytree(home / folder, tmp_path / "home" / folder)
    for folder in [tmp_path, *tmp_path.parents]:
        # An ordinary user owns the folders of its test, and shares the others already.
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o055)
    # The path of a Unix socket has 107 bytes at most.
    fabric = Path(tempfile.mkdtemp(prefix="shared-", dir="/tmp"))
    fabric.chmod(0o755)
    if IS_ROOT:
        os.chown(fabric, 60_000, 60_000)
    containers = Containers(tmp_path / "softband", tmp_path / "home", fabric, tmp_path)
    yield containers
    for program in containers.started:
        if program.poll() is None:
            program.kill()
            program.communicate(timeout=WAIT_SECONDS)
    shutil.rmtree(fabric)


@pytest.mark.parametrize(
    "program",
    [
        "ib_write_lat -n 500",
        "ib_send_bw -n 500 -s 65536",
        "ib_read_bw -n 500",
        "ib_send_lat -n 200 -e",
        "ib_write_bw -n 100 -R",
        "ib_atomic_bw -n 500",
    ],
)
def test_perftest_runs_between_containers(containers: Containers, program: str) -> None:
    engine = containers.up()
    server = containers.on("a", 1, *program.split())
    client = containers.on("b", 2, *program.split(), "a")
    assert "#bytes" in containers.end(client)
    containers.end(server)
    containers.say(3, "down")
    assert engine.wait(timeout=WAIT_SECONDS) == 0
    assert list(containers.fabric.iterdir()) == []


def test_memory_that_no_peer_can_map_moves_through_the_engine(containers: Containers, c_programs: Path) -> None:
    containers.up()
    # Stacks, files and pages that are gone, of one process.
    shutil.copy(c_programs / "registered_memory", containers.folder)
    program = containers.on("a", 1, str(containers.folder / "registered_memory"))
    assert "all parts hold" in containers.end(program)
    # Mappings of files, of two processes.
    (containers.folder / "buffer").write_bytes(bytes(1 << 20))
    (containers.folder / "buffer").chmod(0o666)
    words = ("ib_write_bw", "-n", "50", f"--mmap={containers.folder / 'buffer'}")
    server = containers.on("a", 1, *words)
    assert "#bytes" in containers.end(containers.on("b", 2, *words, "a"))
    containers.end(server)


def test_status_names_programs_of_other_containers(containers: Containers) -> None:
    containers.up()
    server = containers.on("a", 1, "ib_write_lat")
    assert until(lambda: "ib_write_lat" in containers.say(2, "status", "--verbose"))
    containers.say(2, "down")
    server.communicate(timeout=WAIT_SECONDS)
    assert server.returncode != 0, "the engine ends the programs of other containers"


def test_a_program_that_is_killed_costs_its_peer_an_error_alone(containers: Containers) -> None:
    containers.up()
    server = containers.on("a", 1, "ib_send_bw", "-D", "60")
    client = containers.on("b", 2, "ib_send_bw", "-D", "60", "a")
    assert until(lambda: containers.say(3, "status", "--json").count('"RTS"') == 1)
    client.kill()
    client.communicate(timeout=WAIT_SECONDS)
    assert until(lambda: '"command": "ib_send_bw -D 60 a' not in containers.say(3, "status", "--json"))
    assert server.poll() is None, "it waits for its peer's messages"
    server = containers.on("b", 1, "ib_write_lat", "-n", "10", "-p", "18600")
    containers.end(containers.on("a", 2, "ib_write_lat", "-n", "10", "-p", "18600", "b"))
    containers.end(server)


def test_a_host_that_dies_ends_its_programs_in_other_containers(containers: Containers) -> None:
    containers.up()
    server = containers.on("a", 1, "ib_write_lat")
    assert until(lambda: "ib_write_lat" in containers.say(2, "status", "--verbose"))
    containers.say(2, "fault", "host-dies", "a")
    server.communicate(timeout=WAIT_SECONDS)
    assert server.returncode != 0


def test_the_rights_of_the_folder_decide_who_takes_part(containers: Containers) -> None:
    if not IS_ROOT:
        pytest.skip("an ordinary user cannot become another")
    containers.fabric.chmod(0o700)
    containers.up()
    stranger = containers.start(1, str(containers.binary), "exec", "a", "--", "true")
    _, errors = stranger.communicate(timeout=WAIT_SECONDS)
    assert stranger.returncode != 0 and "Permission denied" in errors, errors


def test_nobody_but_the_owner_of_the_folder_offers_a_fabric_there(containers: Containers) -> None:
    if not IS_ROOT:
        pytest.skip("an ordinary user cannot become another")
    containers.fabric.chmod(0o1777)
    engine = subprocess.Popen(
        ["setpriv", "--reuid", "60001", "--regid", "60000", "--clear-groups", str(containers.binary), "up", "--name", str(containers.fabric)],
        env={**os.environ, "SOFTBAND_HOME": str(containers.home)},
        stdout=subprocess.PIPE,
        text=True,
    )
    containers.started.append(engine)
    assert "is up" in line_of(engine)
    victim = subprocess.run(
        ["setpriv", "--reuid", "60002", "--regid", "60000", "--clear-groups", str(containers.binary), "exec", "a", "--", "true"],
        env={**os.environ, "SOFTBAND_HOME": str(containers.home), "SOFTBAND_FABRIC": str(containers.fabric)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert victim.returncode != 0 and "not to be trusted" in victim.stderr, victim


def test_errors_name_the_folder(softband: Any, tmp_path: Path) -> None:
    missing = softband.command("up", "--name", f"{tmp_path}/none")
    assert missing.returncode != 0 and f"'{tmp_path}/none' cannot name a fabric: it has a slash and is no folder" in missing.stderr
    nothing = softband.command("exec", "a", "--name", str(tmp_path), "--", "true")
    assert nothing.returncode != 0 and f"no fabric is up in {tmp_path}" in nothing.stderr
    long = tmp_path / ("x" * 90)
    long.mkdir()
    refused = softband.command("up", "--name", str(long))
    assert refused.returncode != 0 and "has a path of at most" in refused.stderr


def test_a_link_in_the_folder_is_not_followed(softband: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    folder = tmp_path / "fabric"
    folder.mkdir()
    (folder / "softband-fabric").symlink_to(victim)
    refused = softband.command("up", "--name", str(folder))
    assert refused.returncode != 0 and victim.read_text() == "precious"
