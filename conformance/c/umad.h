/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Shared parts of the programs of umad.c and umad_library.c, whose headers exclude each other. */
#ifndef UMAD_H
#define UMAD_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAD_BYTES = 256, NOBODY = 0xbff0, PERFORMANCE = 4 };

#define FAIL(...)                                                                                                      \
	do {                                                                                                           \
		fprintf(stderr, "FAILED %s:%d: ", __FILE__, __LINE__);                                                 \
		fprintf(stderr, __VA_ARGS__);                                                                          \
		fprintf(stderr, " (errno %d, %s)\n", errno, strerror(errno));                                          \
		exit(1);                                                                                               \
	} while (0)
#define CHECK(condition)                                                                                               \
	do {                                                                                                           \
		if (!(condition))                                                                                      \
			FAIL("%s", #condition);                                                                        \
	} while (0)

/* Sends a request by libibumad, and gets the report that nobody answers. */
void use_library(void);

#endif
