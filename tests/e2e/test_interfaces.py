"""Programs of simulated time see the modelled interfaces of their hosts."""

from __future__ import annotations

from conftest import Softband

FILES = "cat type mtu mode pkey addr_len operstate; ls -d device/infiniband/mthca0"


def test_the_usual_tools_show_ipoib(softband: Softband) -> None:
    links = "ip -o link show ib0; ip -o -4 addr show; ip route; ip route get 10.1.0.1"
    program = f"{links}; cd /sys/class/net/ib0 && {FILES}; ifconfig ib0; grep -c . /proc/net/dev; cat statistics/rx_dropped"
    outcome = softband.run("ipoib", ("b", program), options=("--pace", "virtual")).assert_ok()
    link, loopback, management, ipoib, *rest = outcome.program("b-0").splitlines()
    assert link.startswith("3: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 2044")
    assert "link/infiniband 00:" in link
    assert "brd 00:ff:ff:ff:ff:12:40:1b:ff:ff:00:00:00:00:00:00:ff:ff:ff:ff" in link
    assert "inet 127.0.0.1/8" in loopback
    assert "inet 198.18.0.2/16 brd 198.18.255.255" in management
    assert "ib0    inet 10.1.0.2/16 brd 10.1.255.255" in ipoib
    assert [line.split()[:3] for line in rest[:2]] == [["198.18.0.0/16", "dev", "eth0"], ["10.1.0.0/16", "dev", "ib0"]]
    assert rest[2].startswith("10.1.0.1 dev ib0 src 10.1.0.2")
    at = rest.index("32")
    assert rest[at : at + 7] == ["32", "2044", "datagram", "0xffff", "20", "up", "device/infiniband/mthca0"]
    assert "inet 10.1.0.2  netmask 255.255.0.0  broadcast 10.1.255.255" in "\n".join(rest)
    assert rest[-2:] == ["5", "0"]


def test_wall_pace_has_the_management_network_alone(softband: Softband) -> None:
    outcome = softband.run("ipoib", ("a", "ls /sys/class/net; ip -o link show ib0 2>&1 || true"), options=("--pace", "wall")).assert_ok()
    first, second, *missing = outcome.program("a-0").splitlines()
    assert [first, second] == ["eth0", "lo"]
    assert "does not exist" in " ".join(missing)
