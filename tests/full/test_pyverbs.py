"""rdma-core's own Python tests against the drop-in library, in simulated time. Slow: `make test-full`.

Debian's package python3-pyverbs ships the tests of its version as documentation. We unpack them
into a temporary folder. conformance/pyverbs/expected.txt lists the expected outcome of each test.
After an intended change, copy the new list from the path that the failing test prints.
"""

from __future__ import annotations

import gzip
import os
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOFTBAND = Path(os.environ.get("SOFTBAND_BIN", ROOT / "target" / "dist" / "bin" / "softband"))
CONFORMANCE = ROOT / "conformance" / "pyverbs"
# pyverbs is built for the system's own interpreter.
PYTHON = "/usr/bin/python3"
INSTALLED = Path("/usr/share/doc/rdma-core/tests")
# Tests of one maker's devices or of other libraries, not of verbs.
OTHERS = ("test_mlx5", "test_efa", "test_cuda")
# The kernel's own software HCA passes this many generic tests. It skips nearly all the others.
SOFT_ROCE_PASSES = 64
# The machine causes a skip with these reasons, not Softband.
OF_THE_MACHINE = ("huge pages", "/dev/dri", "cuda-python")


@pytest.fixture(scope="session")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Unpacks the tests as a package with the name that they import."""
    folder = tmp_path_factory.mktemp("rdma-core")
    source = INSTALLED
    if not source.is_dir():  # Containers often leave documentation out.
        subprocess.run(["apt-get", "download", "-q", "python3-pyverbs"], cwd=folder, check=True, timeout=300)
        (package,) = folder.glob("python3-pyverbs_*.deb")
        subprocess.run(["dpkg", "-x", str(package), str(folder / "unpacked")], check=True, timeout=60)
        source = folder / "unpacked" / INSTALLED.relative_to("/")
    target = folder / "tests"
    target.mkdir()
    for path in source.iterdir():
        if path.suffix == ".gz":
            (target / path.stem).write_bytes(gzip.decompress(path.read_bytes()))
        else:
            shutil.copy(path, target)
    return target


def run(suite: Path, fabric: str, device: str, out: Path, *names: str, pace: str = "virtual") -> str:
    command = " ".join([f"{PYTHON} {CONFORMANCE / 'run.py'} {suite} --dev {device}", *names])
    words = [str(SOFTBAND), "run", str(ROOT / "fabrics" / f"{fabric}.toml"), "--pace", pace, "--out", str(out), "--on", "a", command]
    done = subprocess.run(words, cwd=out.parent, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return (out / "a-0.out").read_text()


def outcomes(text: str) -> dict[str, tuple[str, str]]:
    """Returns the outcome and reason of each test, by its name."""
    rows = (line.split("\t") for line in text.splitlines() if line and not line.startswith("#"))
    return {row[0]: (row[1], row[2] if len(row) > 2 else "") for row in rows if len(row) > 1}


def counts(found: dict[str, tuple[str, str]]) -> Counter[str]:
    return Counter(outcome for name, (outcome, _) in found.items() if not name.startswith(OTHERS))


def test_each_test_of_rdma_core_ends_as_we_expect(suite: Path, tmp_path: Path) -> None:
    text = run(suite, "modern-pair", "mlx5_0", tmp_path / "out")
    found = outcomes(text)
    expected = outcomes((CONFORMANCE / "expected.txt").read_text())
    generic = counts(found)
    print(f"\nrdma-core's generic tests: {dict(generic)}; Soft-RoCE passes about {SOFT_ROCE_PASSES}")

    def differs(name: str) -> bool:
        now, then = found.get(name, ("", "")), expected.get(name, ("", ""))
        of_the_machine = any(word in now[1] + then[1] for word in OF_THE_MACHINE)
        return now != then and not (of_the_machine and {now[0], then[0]} <= {"pass", "skip"})

    different = {name: (expected.get(name), found.get(name)) for name in found.keys() | expected.keys() if differs(name)}
    assert not different, f"{different}\nthe whole list: {tmp_path / 'out' / 'a-0.out'}"
    assert generic["fail"] == generic["error"] == 0
    assert generic["pass"] > SOFT_ROCE_PASSES


def test_an_hca_of_the_period_fails_none_either(suite: Path, tmp_path: Path) -> None:
    found = outcomes(run(suite, "two-hosts", "mthca0", tmp_path / "out"))
    broken = {name: why for name, why in found.items() if why[0] in ("fail", "error")}
    assert not broken
    assert counts(found)["pass"] > SOFT_ROCE_PASSES


@pytest.mark.parametrize(("fabric", "pace"), [("modern-pair", "wall"), ("roce-100g", "virtual"), ("roce-100g", "wall")])
def test_the_tests_of_the_connection_manager_pass_in_both_paces(suite: Path, tmp_path: Path, fabric: str, pace: str) -> None:
    found = outcomes(run(suite, fabric, "mlx5_0", tmp_path / "out", "test_rdmacm", pace=pace))
    assert Counter(outcome for outcome, _ in found.values()) == {"pass": 10}, found
