/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Measures the one-way time of a cache line from one processor to another, in nanoseconds. No
 * message between two processes is faster. The figure shows how far apart a virtual machine's
 * processors are. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { ROUNDS = 200000 };
static _Alignas(128) atomic_long there;
static _Alignas(128) atomic_long back;

static void stay_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	sched_setaffinity(0, sizeof set, &set);
}

static void *answer(void *unused)
{
	stay_on(1);
	for (long round = 1; round <= ROUNDS; round++) {
		while (atomic_load_explicit(&there, memory_order_acquire) < round)
			;
		atomic_store_explicit(&back, round, memory_order_release);
	}
	return unused;
}

int main(void)
{
	struct timespec start, end;
	pthread_t thread;

	stay_on(0);
	pthread_create(&thread, NULL, answer, NULL);
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (long round = 1; round <= ROUNDS; round++) {
		atomic_store_explicit(&there, round, memory_order_release);
		while (atomic_load_explicit(&back, memory_order_acquire) < round)
			;
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("%.1f\n", ((end.tv_sec - start.tv_sec) * 1e9 + end.tv_nsec - start.tv_nsec) / ROUNDS / 2);
	return 0;
}
