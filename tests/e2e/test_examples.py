"""The example projects in examples/ build and pass their own tests, as in a user's CI."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Fabrics, which

EXAMPLES = ROOT / "examples"
RECIPES = ROOT / "recipes"
BUILD_SECONDS = 280


class Example:
    """A copy of an example, so that its build leaves nothing in the sources."""

    def __init__(self, folder: Path, fabrics: Fabrics) -> None:
        self.folder, self.fabrics = folder, fabrics
        # The make that runs these tests is not that of the example, and changes its output.
        own = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")}
        self.environment = {**own, "SOFTBAND_BIN": str(fabrics.binary)}

    def copy(self, name: str) -> Path:
        return Path(shutil.copytree(EXAMPLES / name, self.folder / name))

    def run(self, *words: str, folder: Path, fails: bool = False, **environment: str) -> str:
        """Runs a command and returns its output. Fails unless the command ends as expected."""
        done = subprocess.run(words, check=False, cwd=folder, env={**self.environment, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=BUILD_SECONDS)
        assert (done.returncode != 0) == fails, f"{words}: status {done.returncode}\n{done.stdout[-6000:]}"
        return done.stdout


@pytest.fixture
def example(tmp_path: Path, fabrics: Fabrics) -> Example:
    return Example(tmp_path, fabrics)


def needs(command: str) -> None:
    if which(command) is None:
        pytest.skip(f"{command} is missing")


def test_c(example: Example) -> None:
    needs("make")
    out = example.run("make", "check", folder=example.copy("c"))
    assert out.endswith("all passed\n")


def configured(example: Example, folder: Path, *words: str, fails: bool = False) -> str:
    return example.run("cmake", "-S", str(folder), "-B", str(folder / "build"), f"-DSoftband_DIR={RECIPES / 'cmake'}", *words, folder=folder, fails=fails)


def test_cpp(example: Example) -> None:
    needs("cmake")
    folder = example.copy("cpp")
    configured(example, folder)
    example.run("cmake", "--build", "build", folder=folder)
    out = example.run("ctest", "--test-dir", "build", "--output-on-failure", folder=folder)
    assert "100% tests passed, 0 tests failed out of 5" in out
    assert (folder / "build" / "softband" / "rows" / "run.json").is_file()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("COMMANDS a true", "softband_add_test: no NAME"),
        ("NAME x COMMANDS a", "COMMANDS ends with host a"),
        ("NAME x PACE fast COMMANDS a true", "PACE fast: write virtual or wall"),
        ("NAME x TIMEOUT 0 COMMANDS a true", "TIMEOUT 0: write whole seconds above 0"),
        ("NAME x FAULTS none.toml COMMANDS a true", "FAULTS none.toml: no file of this name"),
        ("NAME x COPIES 2", "write COMMANDS with hosts and commands, or COPIES"),
        ("NAME x FABRIK y COMMANDS a true", "unknown words FABRIK"),
    ],
)
def test_mistakes_in_a_test_of_ctest_are_named(example: Example, call: str, message: str) -> None:
    needs("cmake")
    folder = example.folder / "wrong"
    folder.mkdir()
    lines = ["cmake_minimum_required(VERSION 3.20)", "project(wrong NONE)", "enable_testing()", "find_package(Softband REQUIRED)"]
    (folder / "CMakeLists.txt").write_text("\n".join([*lines, f"softband_add_test({call})\n"]))
    out = " ".join(configured(example, folder, fails=True).split())
    assert message in out


def test_cmake_names_the_missing_command(example: Example) -> None:
    needs("cmake")
    example.environment["SOFTBAND_BIN"] = "/nowhere/softband"
    assert "no command softband" in configured(example, example.copy("cpp"), fails=True)


def test_a_failed_test_of_ctest_fails_and_names_the_waits(example: Example) -> None:
    needs("cmake")
    folder = example.folder / "late"
    folder.mkdir()
    lines = ["cmake_minimum_required(VERSION 3.20)", "project(late NONE)", "enable_testing()", "find_package(Softband REQUIRED)"]
    (folder / "CMakeLists.txt").write_text("\n".join([*lines, "softband_add_test(NAME late PACE wall TIMEOUT 1 COMMANDS a ibv_rc_pingpong)\n"]))
    configured(example, folder)
    out = example.run("ctest", "--test-dir", "build", "--output-on-failure", folder=folder, fails=True)
    assert "waits for a connection to its TCP port 18515" in out


def test_ctest_itself_runs_once_on_each_host(example: Example) -> None:
    needs("cmake")
    folder = example.folder / "spmd"
    folder.mkdir()
    test = "add_test(NAME rank COMMAND sh -c \"echo rank $SOFTBAND_RANK on $SOFTBAND_HOST\")"
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.20)\nproject(spmd NONE)\nenable_testing()\n{test}\n")
    example.run("cmake", "-S", ".", "-B", "build", folder=folder)
    out = example.run(str(example.fabrics.binary), "run", "-n", "2", "--", "ctest", "--test-dir", "build", "-V", folder=folder)
    assert "a: 1: rank 0 on a" in out
    assert "b: 1: rank 1 on b" in out


def test_rust(example: Example) -> None:
    needs("cargo")
    # A folder in target/ keeps the compiled dependencies for the next run.
    target = os.environ.get("CARGO_TARGET_DIR", str(ROOT / "target")) + "/examples"
    out = example.run("cargo", "test", "--quiet", "--locked", folder=EXAMPLES / "rust", CARGO_TARGET_DIR=target)
    assert "5 passed; 0 failed" in out


def test_go(example: Example) -> None:
    needs("go")
    assert "ok" in example.run("go", "test", "-count=1", folder=example.copy("go"), GOFLAGS="-mod=mod")


def test_python(example: Example) -> None:
    pyverbs = subprocess.run(["/usr/bin/python3", "-c", "import pyverbs.cmid"], capture_output=True, check=False)
    if pyverbs.returncode != 0:
        pytest.skip("python3-pyverbs is missing")
    words = (sys.executable, "-m", "pytest", "-q", "-p", "pytest_softband.plugin", "-p", "no:cacheprovider")
    out = example.run(*words, folder=example.copy("python"), PYTHONPATH=str(RECIPES / "pytest-softband" / "src"))
    assert "5 passed" in out


def test_examples_stay_small() -> None:
    for path in EXAMPLES.rglob("*"):
        if path.suffix in {".c", ".cpp", ".rs", ".go", ".py"}:
            assert len(path.read_text().splitlines()) <= 200, path
        if path.name == "README.md":
            assert len(path.read_text().splitlines()) <= 25, path
    assert all((folder / "README.md").is_file() for folder in EXAMPLES.iterdir() if folder.is_dir())
