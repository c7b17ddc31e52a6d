"""The built-in manager's subnet administration beside OpenSM's, on the same fabric and with the same LIDs.

`docs/management.md` explains each difference that this test admits.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
FABRIC = ROOT / "fabrics" / "fat-tree-16.toml"
pytestmark = pytest.mark.skipif(not shutil.which("opensm", path=PLACES) or not shutil.which("saquery", path=PLACES), reason="no opensm or saquery")

# Queries whose records are equal, but for the fields below and for their order.
EQUAL = (
    "-N",
    "-p",
    "-x",
    '-l "h1 mlx4_0"',
    "-O 1",
    "-I",
    "-S",
    "NR 1",
    "PR --slid 1",
    "--src-to-dst 1:16",
    "--sgid-to-dgid fe80::2:c902:0:5-fe80::2:c902:0:9",
    "PIR",
    "PIR 1",
    "SWIR",
    "SWIR 17",
    "LFTR",
    "LFTR 17/0",
    "MFTR 17",
    "VLAR",
    "VLAR 17/1/1",
    "GIR",
    "GIR 1/0",
    "LR 17",
    "SR",
    "IIR",
    "SMIR",
    "--smkey 1 PKTR 1/1/0",
    "--smkey 1 PKTR 17/1/0",
    "NR 99",
)
# Queries that find no record.
EMPTY = ("-I", "-S", "MFTR 17", "SR", "IIR", "NR 99")
# Queries whose answers differ as a whole.
DIFFERENT = {
    # OpenSM makes the group of IPoIB's broadcast address. The built-in manager makes no group.
    "-g": ("", "MCMemberRecord group dump"),
    "-m": ("", "MCMemberRecord member dump"),
    "MCMR": ("", "MCMember Record dump"),
    # OpenSM states the address that its traps have, and optional abilities.
    "-c": ("Capability mask..........0x2600", "Capability mask..........0x2602"),
    # OpenSM without `-Q` reads no maps: its records are zero, also of pairs with port 0.
    "SL2VL 1/0/0": ("VL: 0| 1| 2| 3", "VL: 0| 0| 0| 0"),
    # OpenSM keeps tables of partition keys for those who know its key.
    "PKTR 1/1/0": ("0xffff", "SA_ERR_REQ_INVALID"),
}
# Fields that differ in the records of both.
IGNORED = {
    # OpenSM leaves NumbPath 0.
    "PathRecord dump:": r"num_path_revers\S*|pkt_life\S*",
    # OpenSM lets switches check partitions at the ports of hosts.
    "PortInfoRecord dump:": r"PartEnforce(In|Out)b\S*",
    # OpenSM's record has this optional field, which no switch here supports.
    "SwitchInfoRecord dump:": r"MulticastFDBTop\S*",
    # The count of OpenSM grows with its work.
    "SMInfoRecord dump:": r"ActCount\S*",
}
MARK = "=== "
# The hosts have the first LIDs, the switches the others.
HOSTS = 16


def is_of_switch(record: str) -> bool:
    """OpenSM counts port 0 of a switch as an end at 10 Gb/s. The built-in manager counts links only."""
    return record.startswith("PathRecord") and any(int(lid) > HOSTS for lid in re.findall(r"[ds]lid\.+(\d+)", record))


def records(lines: list[str]) -> Counter[str]:
    """Returns the records of an answer, without the fields that differ."""
    found: list[list[str]] = []
    for line in lines:
        if not found or (line and not line[0].isspace()):
            found.append([])
        found[-1].append(line)
    counted: Counter[str] = Counter()
    for record in found:
        pattern = IGNORED.get(record[0])
        kept = [line for line in record if line and not (pattern and re.fullmatch(rf"\s*(?:{pattern})", line))]
        text = "\n".join(kept)
        counted[re.sub(r"\n\s+rate\S+", "", text) if is_of_switch(text) else text] += 1
    return counted


def is_unread(record: str) -> bool:
    """OpenSM keeps no more than the state of a port without a link."""
    return record.startswith("PortInfoRecord") and re.search(r"LinkState:\.+Down", record) is not None


def answers(output: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for part in output.split(MARK)[1:]:
        query, *lines = part.splitlines()
        found[query] = lines
    return found


def run(fabric: Path, command: str) -> str:
    """Runs a command on the first host, and returns its output."""
    arguments = [SOFTBAND, "run", fabric, "--timeout", "120", "--on", "h0", command]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, check=True).stdout


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[list[str], list[str]]]:
    folder = tmp_path_factory.mktemp("sa")
    unmanaged = folder / "opensm.toml"
    unmanaged.write_text('[subnet]\nmanager = "opensm"\n\n' + FABRIC.read_text())
    ask = folder / "ask"
    # The error of a query without an answer is a line on the error output, as are remarks about zeros.
    asked = "".join(f"echo '{MARK}{query}'; saquery {query} 2>errors; grep ERROR errors\n" for query in (*EQUAL, *DIFFERENT))
    ask.write_text(f"cd {folder}\n{asked}")
    first = run(FABRIC, f"sh {ask}; true")
    lids = re.findall(r"\blid\.+(\d+)\n(?:\t.*\n)*?\t\tport_guid\.+(\S+)", "\n".join(answers(first)["-N"]))
    assert len(lids) == 22
    (folder / "guid2lid").write_text("".join(f"{guid} 0x{int(lid):04x} 0x{int(lid):04x}\n\n" for lid, guid in lids))
    start = (
        f"cp {folder}/guid2lid $OSM_CACHE_DIR/; opensm -c {folder}/conf >/dev/null; "
        f"sed -i 's/honor_guid2lid_file FALSE/honor_guid2lid_file TRUE/' {folder}/conf; "
        f"opensm -F {folder}/conf -f {folder}/log >/dev/null 2>&1 & manager=$!; sleep 2; "
    )
    second = run(unmanaged, f"{start}sh {ask}; kill $manager; wait $manager; true")
    own, other = answers(first), answers(second)
    return {query: (own[query], other[query]) for query in own}


@pytest.mark.parametrize("query", EQUAL)
def test_both_administrations_answer_alike(both: dict[str, tuple[list[str], list[str]]], query: str) -> None:
    own, other = (records(lines) for lines in both[query])
    only_own = [record for record in (own - other) if not is_unread(record)]
    only_other = [record for record in (other - own) if not is_unread(record)]
    assert (only_own, only_other) == ([], []), f"saquery {query}"
    assert sum(own.values()) == sum(other.values())
    assert (sum(own.values()) == 0) == (query in EMPTY)


@pytest.mark.parametrize("query", DIFFERENT)
def test_known_differences_are_still_there(both: dict[str, tuple[list[str], list[str]]], query: str) -> None:
    own, other = ("\n".join(lines) for lines in both[query])
    in_own, in_other = DIFFERENT[query]
    assert in_own in own and (in_own or "ERR" not in own)
    assert in_other in other and in_other not in own
