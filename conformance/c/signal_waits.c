/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Waits for blocked signals. Without a signal a wait lasts its timeout, to the microsecond. All
 * three calls return a signal that comes. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static sigset_t waited;

static long micros(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static void on_usr2(int signal)
{
	(void)signal;
}

static void say(const char *what, int result, long since)
{
	printf("%s: %s after %ld ms\n", what, result < 0 ? strerror(errno) : strsignal(result), (micros() - since) / 1000);
}

static void *takes_alarms(void *unused)
{
	int signal = 0;

	for (int i = 0; i < 2; i++) {
		int error = sigwait(&waited, &signal);
		printf("thread: %d %s\n", error, strsignal(signal));
	}
	return unused;
}

static void in_a_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, takes_alarms, NULL);
	for (int i = 0; i < 2; i++) {
		alarm(1);
		sleep(2);
	}
	pthread_join(thread, NULL);
}

int main(void)
{
	struct timespec limit = {0, 40000000}, none = {0, 0};
	siginfo_t info;
	long since;
	pid_t child;

	sigemptyset(&waited);
	sigaddset(&waited, SIGUSR1);
	sigaddset(&waited, SIGALRM);
	sigaddset(&waited, SIGCHLD);
	sigprocmask(SIG_BLOCK, &waited, NULL);
	signal(SIGUSR2, on_usr2);

	for (int i = 0; i < 3; i++) {
		since = micros();
		say("nothing", sigtimedwait(&waited, NULL, &limit), since);
	}
	since = micros();
	say("no wait", sigtimedwait(&waited, NULL, &none), since);
	raise(SIGUSR1);
	say("pending", sigtimedwait(&waited, &info, &none), since);
	printf("told: %d\n", info.si_signo == SIGUSR1);
	alarm(1);
	since = micros();
	say("alarm", sigwaitinfo(&waited, &info), since);
	since = micros();
	child = fork();
	if (!child) {
		usleep(300000);
		_exit(3);
	}
	say("child", sigwaitinfo(&waited, &info), since);
	printf("reaped: %d\n", waitpid(child, NULL, 0) == child);
	since = micros();
	child = fork();
	if (!child) {
		usleep(200000);
		kill(getppid(), SIGUSR2);
		usleep(200000);
		_exit(0);
	}
	say("handler", sigwaitinfo(&waited, &info), since);
	say("child", sigwaitinfo(&waited, &info), since);
	fflush(stdout);
	in_a_thread();
	return 0;
}
