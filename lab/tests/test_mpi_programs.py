"""MPI jobs of studies: their commands, their table, and errors."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Tree
from test_refusals import change

from softband_lab.base.errors import LabError
from softband_lab.base.softband import MpiJob, RunFailed, Softband
from softband_lab.campaign.engine_job import EngineJob, MpiStep
from softband_lab.campaign.inputs import InputFile
from softband_lab.campaign.perftest import Measurement
from softband_lab.campaign.printed import has_table, parse_table
from softband_lab.campaign.subnet_manager import SubnetManager, managed_by

SOURCE = Path("rank-0.out")
CSV = """benchmark,ranks,bytes,repetitions,t_min_us,t_max_us,t_avg_us,mbytes_per_s,messages_per_s
PingPong,2,4,50,0.900,1.100,1.000,4.000,
MessageRate,2,8,20,1.000,2.000,1.500,256.000,32000000
Barrier,2,0,20,3.000,3.000,3.000,,
"""
JOB = MpiJob("softband-mpibench", ("--csv", "--sizes", "4"), 2, ("a", "b"), (("UCX_TLS", "tcp,self"),))


def test_a_line_has_times_and_rates() -> None:
    assert has_table(CSV)
    first, second, third = parse_table(CSV, SOURCE)
    assert first == Measurement(4, 50, bw_average_mb_s=4.0, latency_min_us=0.9, latency_avg_us=1.0, latency_max_us=1.1)
    assert second.message_rate_mpps == 32.0
    assert (third.bw_average_mb_s, third.message_rate_mpps) == (None, None)


def test_a_cut_table_is_an_error() -> None:
    with pytest.raises(LabError, match="a line of softband-mpibench's CSV is cut"):
        parse_table(CSV + "PingPong,2,8", SOURCE)


NPB = """ CG (conjugate gradient) Benchmark Completed.
 Class           =                        S
 Iterations      =                       15
 Time in seconds =                 0.250000
 Verification    =               SUCCESSFUL
"""


LATTICE = """ softband-lattice: Wilson fermions, even-odd preconditioned conjugate gradients
 Lattice         =                 8x8x8x16
 Iterations      =                       22
 Convergence     =                  REACHED
 Solver time (s) =              0.000388730
 Halo time (%)   =                     76.9
 Verification    =               SUCCESSFUL
"""

WEATHER = """ softband-weather: stencils of a weather model, split-explicit
 Steps           =                      225
 Small steps     =                     1796
 Run time (s)    =              1.000229252
 Step time (ms)  =                 4.445463
 Halo time (s)   =              0.000222505
 Verification    =               SUCCESSFUL
"""


TIMES = [(NPB, 15, 250_000), (LATTICE, 22, 388.73), (WEATHER, 225, 1_000_229.252)]


@pytest.mark.parametrize(("text", "count", "us"), TIMES)
def test_a_whole_program_has_an_execution_time(text: str, count: int, us: float) -> None:
    assert has_table(text)
    [line] = parse_table(text, SOURCE)
    assert line == Measurement(1, count, latency_max_us=pytest.approx(us))


@pytest.mark.parametrize("text", [NPB, LATTICE, WEATHER])
@pytest.mark.parametrize("verdict", ["UNSUCCESSFUL", "NOT PERFORMED"])
def test_a_program_without_a_right_result_is_an_error(verdict: str, text: str) -> None:
    with pytest.raises(LabError, match="did not verify"):
        parse_table(text.replace("SUCCESSFUL", verdict), SOURCE)


def test_the_command_names_the_recording_of_the_study() -> None:
    job = replace(JOB, compute=("--compute-kind", "memory", "--compute-host", "h"))
    step = MpiStep(job, InputFile("studies/x/r.rec", "text"))
    assert "--compute recorded=studies/x/r.rec --compute-kind memory --compute-host h" in step.command("f.toml", 1)
    assert step.inputs() != replace(step, recording=InputFile("studies/x/r.rec", "other")).inputs()


def test_the_command_is_one_that_a_user_can_type() -> None:
    assert MpiStep(JOB).command("fabrics/x.toml", 7) == (
        "UCX_TLS=tcp,self softband mpirun --hosts a,b -n 2 --seed 7 --out OUT fabrics/x.toml "
        '"$(softband-mpibench --path)" --csv --sizes 4'
    )


def test_a_program_that_does_not_compile_fails_the_run(tmp_path: Path) -> None:
    binary, program = tmp_path / "softband", tmp_path / "softband-mpibench"
    program.write_text("#!/bin/sh\necho no compiler >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(RunFailed) as failed:
        Softband(binary).mpirun(tmp_path / "x.toml", JOB, tmp_path / "out", 1, 10.0)
    assert failed.value.last_lines == ["no compiler"]


def test_ranks_do_not_wait_for_opensm() -> None:
    job = EngineJob("x", InputFile("fabrics/x.toml", ""), [MpiStep(JOB)], 1, 10.0, [4])
    with pytest.raises(LabError, match="carries an MPI job"):
        managed_by(SubnetManager.OPENSM, job)


@pytest.mark.parametrize("key", ["server_host", "server", "client_host", "client"])
def test_a_test_has_two_commands_or_an_mpi_job(tree: Tree, key: str) -> None:
    path = tree.home / "studies" / "mini" / "study.toml"
    line = next(line for line in path.read_text().splitlines() if line.startswith(f"{key} = "))
    change(path, line + "\n", "")
    with pytest.raises(LabError, match=f"has no `{key}`"):
        tree.study()
