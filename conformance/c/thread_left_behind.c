/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A program ends with status 0 while its second thread sits in its own system call, as threads of
 * OpenMP's pool do. With "quick" it ends in a way that no exit handler sees. The engine must not
 * report a crash. */
#include <linux/futex.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LOOKS = 5000 };

static int ready, never;

static void *sits(void *unused)
{
	__atomic_store_n(&ready, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		long result = SYS_futex;
		register long no_limit __asm__("r10") = 0;

		__asm__ volatile("syscall"
				 : "+a"(result)
				 : "D"(&never), "S"(FUTEX_WAIT_PRIVATE), "d"(0), "r"(no_limit)
				 : "rcx", "r11", "memory");
	}
	return unused;
}

int main(int count, char **words)
{
	pthread_t thread;
	struct timespec now;

	if (pthread_create(&thread, NULL, sits, NULL))
		return 1;
	while (!__atomic_load_n(&ready, __ATOMIC_SEQ_CST))
		usleep(10);
	/* The clock advances without a message to the other thread, which falls behind. */
	for (int i = 0; i < LOOKS; i++)
		clock_gettime(CLOCK_MONOTONIC, &now);
	puts("done");
	fflush(stdout);
	if (count > 1 && !strcmp(words[1], "quick"))
		quick_exit(0);
	return 0;
}
