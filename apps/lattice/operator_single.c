/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define REAL float
#define REAL_MPI MPI_FLOAT
#define SOLVE solve_single
#include "solver.h"
