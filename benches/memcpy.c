/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Measures the limit of data movement within a machine: memcpy of BYTES, median of several rounds,
 * in GB/s. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now(void) {
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b) { return *(const double *)a < *(const double *)b ? -1 : 1; }

int main(int count, char **words) {
	size_t bytes = count > 1 ? strtoul(words[1], NULL, 0) : 65536;
	char *from = aligned_alloc(4096, bytes), *to = aligned_alloc(4096, bytes);
	double rates[15];
	memset(from, 1, bytes);
	memset(to, 2, bytes);
	for (int round = 0; round < 15; round++) {
		long copies = 200000000 / bytes + 1;
		double start = now();
		for (long i = 0; i < copies; i++) {
			memcpy(to, from, bytes);
			__asm__ volatile("" : : "r"(to) : "memory");
		}
		rates[round] = copies * bytes / (now() - start) / 1e9;
	}
	qsort(rates, 15, sizeof *rates, by_value);
	printf("%.2f\n", rates[7]);
	return 0;
}
