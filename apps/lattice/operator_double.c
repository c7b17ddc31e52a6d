/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#define REAL double
#define REAL_MPI MPI_DOUBLE
#define SOLVE solve_double
#include "solver.h"
