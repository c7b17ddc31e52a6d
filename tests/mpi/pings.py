"""Prints the microseconds of a message of eight bytes between the first two ranks, after a barrier."""

import numpy
from mpi4py import MPI

ROUNDS = 20
world = MPI.COMM_WORLD
word = numpy.zeros(1, dtype="i8")

world.Barrier()
begun = MPI.Wtime()
for _ in range(ROUNDS):
    if world.rank == 0:
        world.Send(word, 1)
        world.Recv(word, 1)
    elif world.rank == 1:
        world.Recv(word, 0)
        world.Send(word, 0)
passed = MPI.Wtime() - begun
world.Barrier()
if world.rank == 0:
    print(f"message {passed / (2 * ROUNDS) * 1e6:.3f} us", flush=True)
