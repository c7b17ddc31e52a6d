"""OpenSSH between hosts: its filter of system calls, its own environments, and its children."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import ROOT, Softband, which

FABRIC = ROOT / "fabrics" / "modern-pair.toml"
SERVER = which("sshd")
SHELLS = ("/bin/sh", "/bin/bash", "/bin/dash")


@pytest.mark.parametrize("way", ["", "by-number"])
@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_a_filter_of_system_calls_holds_for_the_program_and_not_for_softband(softband: Softband, c_programs: Path, pace: str, way: str) -> None:
    outcome = softband.run("modern-pair", ("a", f"{c_programs / 'call_filter'} {way}"), options=("--pace", pace)).assert_ok()
    assert outcome.program("a-0") == "the filter holds\n"


@dataclass
class Login:
    """Keys and settings of an SSH server that runs as an ordinary user."""

    folder: Path
    user: str

    def run(
        self, softband: Softband, pace: str, command: str, fabric: str = str(FABRIC), server_name: str = "a"
    ) -> subprocess.CompletedProcess[str]:
        server = f"timeout -s KILL 8 {SERVER} -D -e -f {self.folder}/settings"
        options = "-F none -p 2222 -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
        client = f"sh -c {shlex.quote(f'sleep 1; ssh {options} -i {self.folder}/user {self.user}@{server_name} {shlex.quote(command)}; hostname')}"
        words = [str(softband.binary), "run", fabric, "--pace", pace, "--quiet", "--on", "a", server, "--on", "b", client]
        script = f"cd {self.folder} && HOME={self.folder} {shlex.join(words)}"
        words = ["sh", "-c", script]
        if os.geteuid() == 0:
            words = ["runuser", "-u", self.user, "--", *words]
        return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def login() -> Iterator[Login]:
    """Prepares a server. Root becomes another account, because the server needs one that may log in."""
    if SERVER is None or which("ssh") is None:
        pytest.skip("sshd is not installed (Debian: openssh-server)")
    users = [pwd.getpwuid(os.geteuid())] if os.geteuid() != 0 else [user for user in pwd.getpwall() if user.pw_uid != 0]
    user = next((user for user in users if user.pw_shell in SHELLS), None)
    if user is None:
        pytest.skip("no ordinary account may log in")
    with tempfile.TemporaryDirectory(prefix="softband-test-", dir="/tmp") as name:
        folder = Path(name)
        for key in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)], check=True, timeout=60)
        settings = f"Port 2222\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\nPidFile none\nStrictModes no\nUsePAM no\n"
        (folder / "settings").write_text(settings)
        for path in (folder, *folder.iterdir()):
            os.chown(path, user.pw_uid, user.pw_gid)
        yield Login(folder, user.pw_name)


LOOK = "hostname; env -i /bin/hostname; env | grep -c ^SSH_CONNECTION; ibv_devinfo -i 1 | grep port_lid; exit 3"


@pytest.mark.parametrize("pace", ["virtual", "wall"])
def test_a_login_runs_programs_on_the_host_of_the_server(softband: Softband, login: Login, pace: str) -> None:
    done = login.run(softband, pace, LOOK)
    lines = [line.removeprefix("b: ") for line in done.stdout.splitlines() if line.startswith("b: ")]
    assert [re.sub(r"\s+", " ", line).strip() for line in lines] == ["a", "a", "1", "port_lid: 1", "b"], done.stdout + done.stderr
    assert "Accepted publickey" in done.stderr


@pytest.mark.parametrize(("fabric", "server"), [(str(FABRIC), "a"), ("ipoib", "a-ib0"), ("gigabit", "a-eth1")])
def test_two_logins_in_simulated_time_take_the_same_time(softband: Softband, login: Login, fabric: str, server: str) -> None:
    first, again = (login.run(softband, "virtual", "date +%s.%N", fabric, server) for _ in range(2))
    assert re.search(r"^b: \d+\.\d{9}$", first.stdout, re.MULTILINE), first.stderr
    assert first.stdout == again.stdout
