/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Prints the simulated time of joins and kills. The system ends each thread slowly: its last destructor
 * waits, and the fabric sees no destructor. The child ignores SIGTERM. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TIMES = 5, LAST_ROUND = 4, END_US = 30000 };

static pthread_key_t key;
static __thread int round_of_destructors;

static void end(void *value)
{
	if (++round_of_destructors < LAST_ROUND) pthread_setspecific(key, value);
	else usleep(END_US);
}

static void *begin(void *argument)
{
	pthread_setspecific(key, argument);
	return argument;
}

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int join_threads(void)
{
	if (pthread_key_create(&key, end) != 0) return 1;
	for (int i = 0; i < TIMES; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, begin, &key) != 0) return 1;
		usleep(1000);
		long long begun = now_ns();
		if (pthread_join(thread, NULL) != 0) return 1;
		printf("joined after %lld ns\n", now_ns() - begun);
	}
	return 0;
}

static int end_child(void)
{
	signal(SIGTERM, SIG_IGN);
	pid_t child = fork();
	if (child < 0) return 1;
	if (child == 0) {
		for (;;) pause();
	}
	for (int i = 0; i < TIMES; i++) {
		long long begun = now_ns();
		if (kill(child, SIGTERM) != 0) return 1;
		printf("told after %lld ns\n", now_ns() - begun);
	}
	return kill(child, SIGKILL) != 0 || waitpid(child, NULL, 0) != child;
}

int main(void)
{
	return join_threads() || end_child();
}
