/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * robust_mutex exit|kill: a process takes a robust mutex in shared memory and ends. Its parent waits
 * for the mutex, and learns from the answer that the owner has died. */
#define _GNU_SOURCE
#include "verbs_common.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct shared {
	pthread_mutex_t mutex;
	volatile int is_taken;
};

int main(int count, char **words)
{
	const struct timespec tick = {.tv_nsec = 10 * 1000 * 1000};
	pthread_mutexattr_t attributes;
	struct timespec until;
	struct shared *shared;
	pid_t child;

	CHECK(count == 2);
	shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	IS(0, pthread_mutexattr_init(&attributes));
	IS(0, pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED));
	IS(0, pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST));
	IS(0, pthread_mutex_init(&shared->mutex, &attributes));
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		IS(0, pthread_mutex_lock(&shared->mutex));
		shared->is_taken = 1;
		/* The page closes in later turns, and the process does not write it again. */
		nanosleep(&tick, NULL);
		nanosleep(&tick, NULL);
		if (strcmp(words[1], "kill") == 0) kill(getpid(), SIGKILL);
		_exit(0);
	}
	while (!shared->is_taken) nanosleep(&tick, NULL);
	CHECK(clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_sec += PATIENCE_SECONDS;
	IS(EOWNERDEAD, pthread_mutex_timedlock(&shared->mutex, &until));
	IS(0, pthread_mutex_consistent(&shared->mutex));
	IS(0, pthread_mutex_unlock(&shared->mutex));
	CHECK(waitpid(child, NULL, 0) == child);
	printf("the owner has died\n");
	return 0;
}
