"""Starts one rank of an MPI program under `softband run -n`: python3 rank.py MPI PMI-LIBRARY PROGRAM [WORD]...

Rank 0 starts the server by which the ranks find each other, then every rank becomes the program.
"""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pmi_server

PORT = 7117
UCX = {"UCX_TLS": "rc_verbs,ud_verbs,self", "UCX_LOG_LEVEL": "error", "HWLOC_COMPONENTS": "-gl"}
# MPICH unpacks whole elements only, and rc_verbs cuts messages at 8256 bytes less a header of 9.
MPICH = {"MPIR_CVAR_CH4_NETMOD": "ucx", "MPIR_CVAR_NOLOCAL": "1", "UCX_RC_VERBS_SEG_SIZE": "8257"}
# UCX otherwise takes the reply to a request before the completion of an earlier read.
OPENMPI = {"UCX_RC_TX_POLL_ALWAYS": "y", "OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx,sm", "OMPI_MCA_btl": "self", "OMPI_MCA_schizo": "flux", "FLUX_JOB_ID": "1",
           "OMPI_MCA_mpi_yield_when_idle": "0"}


def start_server(size: int, hosts: int) -> None:
    listener = socket.create_server(("0.0.0.0", PORT), backlog=size)
    if os.fork() == 0:
        os._exit(pmi_server.serve(listener, size, hosts))
    listener.close()


def environment(mpi: str, library: str, rank: int, server: str) -> dict[str, str]:
    """Returns the environment of a rank. Variables of the caller win over these."""
    chosen = {**UCX, **(MPICH if mpi == "mpich" else OPENMPI), "PMI_PORT": f"{server}:{PORT}", "PMI_ID": str(rank)}
    if mpi == "openmpi":
        chosen["FLUX_PMI_LIBRARY_PATH"] = library
    return {**chosen, **os.environ}


def main() -> None:
    mpi, library, *program = sys.argv[1:]
    rank, size = int(os.environ["SOFTBAND_RANK"]), int(os.environ["SOFTBAND_SIZE"])
    hosts = list(dict.fromkeys(os.environ["SOFTBAND_HOSTS"].replace(",", " ").split()))
    if rank == 0:
        start_server(size, len(hosts))
    os.execvpe(program[0], program, environment(mpi, library, rank, hosts[0]))


if __name__ == "__main__":
    main()
