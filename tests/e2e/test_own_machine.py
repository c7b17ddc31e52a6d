"""A host is a machine of its own: programs change its settings, and never those of the real machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import FABRICS, Outcome, Softband

PACES = pytest.mark.parametrize("pace", ["virtual", "wall"])
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root writes settings of the kernel")
INTERVAL = Path("/proc/sys/net/ipv4/tcp_keepalive_intvl")
SWAPPINESS = Path("/proc/sys/vm/swappiness")


@pytest.fixture
def machine() -> Iterator[None]:
    """Fails if the machine's settings change, and restores them."""
    before = {path: path.read_text() for path in (INTERVAL, SWAPPINESS)}
    name = socket.gethostname()
    yield
    after = {path: path.read_text() for path in before}
    for path, text in before.items():
        if after[path] != text:
            path.write_text(text)
    if socket.gethostname() != name:
        socket.sethostname(name)
        pytest.fail("the machine has another name")
    assert after == before


def run(softband: Softband, fabric: str | Path, pace: str, *on: tuple[str, str]) -> Outcome:
    return softband.run(fabric, *on, options=("--pace", pace)).assert_ok()


@AS_ROOT
@PACES
@pytest.mark.parametrize("fabric", ["ipoib", "modern-pair"])
def test_a_host_keeps_its_settings(softband: Softband, machine: None, pace: str, fabric: str) -> None:
    writes = f"""
        echo 71 > {INTERVAL}; cat {INTERVAL}
        cd /proc/sys/net/ipv4; echo 72 > tcp_keepalive_intvl; cat tcp_keepalive_intvl
        echo 73 | tee tcp_keepalive_intvl; {shutil.which("echo")} 74 > tcp_keepalive_intvl; cat tcp_keepalive_intvl
        echo many 2>/dev/null > tcp_keepalive_intvl || cat tcp_keepalive_intvl
        python3 -c 'open("{SWAPPINESS}", "w").write("61")'; cat {SWAPPINESS}
        echo '4096 100000 200000' > tcp_rmem; cat tcp_rmem
        echo 9 > tcp_wmem; cut -f 1 tcp_wmem"""
    outcome = run(softband, fabric, pace, ("a", writes), ("b", f"sleep 1; cat {INTERVAL} {SWAPPINESS}"))
    expected = ["71", "72", "73", "74", "74", "61", "4096\t100000\t200000", "9"]
    assert outcome.program("a-0").splitlines() == expected
    assert outcome.program("b-0").split() == [INTERVAL.read_text().strip(), SWAPPINESS.read_text().strip()]


@AS_ROOT
@PACES
def test_other_programs_of_the_host_read_them(softband: Softband, machine: None, pace: str) -> None:
    outcome = run(softband, "modern-pair", pace, ("a", f"echo 71 > {INTERVAL}"), ("a", f"sleep 1; cat {INTERVAL}"))
    assert outcome.program("a-1") == "71\n"
    assert "which has no effect on the fabric" in outcome.stderr


@AS_ROOT
@PACES
@pytest.mark.skipif(not shutil.which("sysctl"), reason="no sysctl")
def test_sysctl_changes_the_host(softband: Softband, machine: None, pace: str) -> None:
    name = "net.ipv4.tcp_keepalive_intvl"
    outcome = run(softband, "ipoib", pace, ("a", f"sysctl -w {name}=71; sysctl {name}"))
    assert outcome.program("a-0") == f"{name} = 71\n" * 2


@AS_ROOT
def test_modelled_sockets_obey_the_settings(softband: Softband, machine: None) -> None:
    show = "import socket; s = socket.socket(); print(s.getsockopt(6, socket.TCP_KEEPINTVL), s.getsockopt(1, socket.SO_RCVBUF))"
    change = f"echo 71 > {INTERVAL}; echo '4096 100000 200000' > /proc/sys/net/ipv4/tcp_rmem"
    outcome = run(softband, "ipoib", "virtual", ("a", f'{change}; python3 -c "{show}"'), ("b", f'sleep 1; python3 -c "{show}"'))
    assert outcome.program("a-0") == "71 100000\n"
    assert outcome.program("b-0") == "75 87380\n"
    assert "no effect" not in outcome.stderr


@AS_ROOT
@PACES
def test_a_host_has_its_own_name(softband: Softband, machine: None, pace: str) -> None:
    names = "python3 -c 'import socket; print(socket.gethostname())'; uname -n; cat /proc/sys/kernel/hostname"
    change = "python3 -c 'import socket; socket.sethostname(\"other\")'"
    outcome = run(softband, "modern-pair", pace, ("a", f"{names}; {change}; {names}"), ("b", f"sleep 1; {names}"))
    assert outcome.program("a-0").split() == ["a"] * 3 + ["other"] * 3
    assert outcome.program("b-0").split() == ["b"] * 3


@AS_ROOT
@PACES
@pytest.mark.parametrize("path", ["/proc/sys/vm/drop_caches", "/proc/sys/net/ipv4/ip_forward", "/sys/kernel/mm/ksm/run"])
def test_actions_on_the_machine_are_refused(softband: Softband, pace: str, path: str) -> None:
    if not Path(path).exists():
        pytest.skip("the machine has no such file")
    try_it = f"try:\n    open('{path}', 'w')\nexcept OSError as error:\n    print(error.errno)"
    outcome = run(softband, "modern-pair", pace, ("a", f'python3 -c "{try_it}"'))
    assert outcome.program("a-0") == "1\n"
    assert outcome.stderr.count(f"no program of a fabric changes the machine by {path} (EPERM)") == 1


@PACES
@pytest.mark.parametrize("name", ["net/ib0/mode", "net/ib0/mtu", "net/ib0/create_child", "net/ib0/delete_child", "infiniband/mthca0/node_desc"])
def test_files_that_the_fabric_file_decides_about_refuse_writes(softband: Softband, pace: str, name: str) -> None:
    if pace == "wall" and "ib0" in name:
        pytest.skip("no interface of InfiniBand in wall pace")
    path = f"/sys/class/{name}"
    try_it = f"try:\n    open('{path}', 'w').write('other')\nexcept OSError as error:\n    print(error.errno)"
    outcome = run(softband, "ipoib", pace, ("a", f'before=$(cat {path}); python3 -c "{try_it}"; test "$before" = "$(cat {path})"'))
    assert outcome.program("a-0") == "1\n"
    assert "the fabric file decides about " in outcome.stderr


@PACES
def test_calls_do_not_reach_the_machine(softband: Softband, c_programs: Path, pace: str) -> None:
    with subprocess.Popen(["sleep", "600"], process_group=0) as outside:
        try:
            outcome = run(softband, "modern-pair", pace, ("a", f"{c_programs}/machine_changes {outside.pid}"))
        finally:
            outside.kill()
    done = {name for name, _, result in (line.partition(": ") for line in outcome.program("a-0").splitlines()) if result == "done"}
    assert done == {"adjtimex that reads", "question", "own child", "own group", "own file", "own priority", "/dev/null"}
    others = {line.partition(": ")[2] for line in outcome.program("a-0").splitlines()} - {"done"}
    assert others == {"EPERM"}
    assert f"a signal for process {outside.pid} outside this fabric fails (EPERM)" in outcome.stderr


@PACES
def test_sockets_stay_in_the_fabric(softband: Softband, c_programs: Path, pace: str) -> None:
    outcome = run(softband, "modern-pair", pace, ("a", f"{c_programs}/socket_families"))
    results = dict(line.split(": ") for line in outcome.program("a-0").splitlines())
    opens = {"TCP", "MPTCP", "MPTCP of IPv6", "UDP", "route", "events of devices", "Unix"}
    assert {name for name, result in results.items() if result == "open"} == opens
    assert {results[name] for name in ("packet", "RDS", "KCM", "SMC", "TIPC", "VSOCK", "XDP")} == {"EAFNOSUPPORT"}
    assert {results[name] for name in ("UDP-Lite", "SCTP stream", "xfrm", "netfilter", "generic")} == {"EPROTONOSUPPORT"}
    assert {results[name] for name in ("SCTP", "DCCP")} == {"ESOCKTNOSUPPORT"}
    assert (results["raw"], results["raw of IPv6"]) == ("EPERM", "EPERM")
    assert (results["no interface"], results["lo"], results["flags"]) == ("ENODEV", "taken", "EINVAL")
    assert "no host of a fabric has sockets of AF_PACKET" in outcome.stderr


@PACES
@pytest.mark.parametrize("fabric", ["modern-pair", "ipoib"])
@pytest.mark.parametrize(("server", "client"), [("mptcp", "tcp"), ("tcp", "mptcp"), ("mptcp", "mptcp")])
def test_mptcp_crosses_the_fabric(softband: Softband, c_programs: Path, pace: str, fabric: str, server: str, client: str) -> None:
    program = f"{c_programs}/multipath"
    outcome = run(softband, fabric, pace, ("a", f"{program} {server}"), ("b", f"{program} {client} a"))
    assert outcome.program("b-0") == "hello\n"


@PACES
def test_huge_pages_become_small_pages(softband: Softband, c_programs: Path, pace: str) -> None:
    outcome = run(softband, "modern-pair", pace, ("a", f"{c_programs}/huge_pages"))
    used = [f"{name}: aligned, ends with 7" for name in ("mapping", "2 MiB", "shared", "segment", "file")]
    assert outcome.program("a-0").splitlines() == [used[0], "munmap: 0", *used[1:], "advice: 0", "bad advice: -1"]
    assert outcome.stderr.count("the machine has no huge pages reserved") <= 1


@PACES
def test_listings_of_the_classes_have_no_errors(softband: Softband, pace: str) -> None:
    classes = "/sys/class/net /sys/class/infiniband /sys/class/net/ /sys/class/infiniband/"
    commands = f"ls -l {classes}; ls -lR {classes}; find {classes}; find -L {classes} -maxdepth 3; stat /sys/class/net/* /sys/class/infiniband/*"
    outcome = run(softband, "modern-pair", pace, ("a", f"{{ {commands}; }} >/dev/null"))
    assert outcome.stderr == ""


@PACES
def test_links_of_the_classes_lead_to_devices(softband: Softband, pace: str) -> None:
    command = 'for each in /sys/class/infiniband/* /sys/class/net/*; do at=$(readlink -f "$each"); test -d "$at" && echo "$at"; done'
    outcome = run(softband, "modern-pair", pace, ("a", command))
    found = outcome.program("a-0").split()
    assert found == ["/sys/devices/pci0000:00/0000:00:01.0/infiniband/mlx5_0", "/sys/devices/virtual/net/eth0", "/sys/devices/virtual/net/lo"]


@PACES
@pytest.mark.skipif(not shutil.which("opensm"), reason="no opensm")
def test_opensm_leaves_ethernet_to_itself(softband: Softband, tmp_path: Path, pace: str) -> None:
    text = (FABRICS / "modern-pair.toml").read_text().replace("[subnet]", '[subnet]\nmanager = "opensm"', 1)
    for host, behind in (("a", "[hosts.b]"), ("b", "[switches.sw]")):
        card = f'[[hosts.{host}.hcas]]\ndevice = "mlx5_1"\npart = "connectx5"\nlink_layer = "ethernet"\n\n'
        text = text.replace(behind, card + behind)
    text += '\n[[cables]]\npart = "ethernet-copper"\nlength = "1 m"\nfrom = "a/mlx5_1/1"\nto = "b/mlx5_1/1"\n'
    fabric = tmp_path / "mixed.toml"
    fabric.write_text(text)
    state = "cat /sys/class/infiniband/mlx5_?/ports/1/state"
    measure = "ibv_rc_pingpong -d mlx5_0 -n 10 {0} >/dev/null && ibv_rc_pingpong -d mlx5_1 -g 1 -n 10 {0} >/dev/null && echo both"
    server = f"{state}; opensm -o -f {tmp_path}/opensm.log >/dev/null; {state}; " + measure.format("")
    client = "sleep 3; " + measure.format("a").replace("&& ibv", "&& sleep 1 && ibv")
    outcome = run(softband, fabric, pace, ("a", server), ("b", client))
    assert outcome.program("a-0").splitlines() == ["2: INIT", "4: ACTIVE", "4: ACTIVE", "4: ACTIVE", "both"]
    assert outcome.program("b-0") == "both\n"
