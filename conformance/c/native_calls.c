/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Prints the simulated time of system calls that the fabric does not see and that never wait. The engine's
 * signal can meet the thread right before such a call. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 1000;
	printf("begins\n");
	fflush(stdout);
	long long begun = now_ns(), sum = 0;
	for (int i = 0; i < rounds; i++) sum += getpriority(PRIO_PROCESS, 0);
	printf("%lld\n", now_ns() - begun);
	return sum != 0;
}
