"""A window: a put in an epoch of fences, then a fetch-and-add of the word that it wrote."""

import numpy
from mpi4py import MPI

world = MPI.COMM_WORLD
right, left = (world.rank + 1) % world.size, (world.rank - 1) % world.size
window = MPI.Win.Allocate(8, 8, comm=world)
mine, one, old = numpy.array([world.rank + 1], "i8"), numpy.array([1], "i8"), numpy.zeros(1, "i8")

window.Fence()
window.Put(mine, right)
window.Fence()
window.Lock_all()
window.Fetch_and_op(one, old, right, 0, MPI.SUM)
window.Flush(right)
window.Unlock_all()
world.Barrier()
assert old[0] == world.rank + 1, old
word = numpy.frombuffer(window, "i8")[0]
assert word == left + 2, word
world.Barrier()
print(f"rank {world.rank} holds", flush=True)
window.Free()
