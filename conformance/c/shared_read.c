/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * shared_read FIFO: a thread reads from a named pipe into memory that a child process has, too. The
 * data comes from outside the run. The first thread takes turns meanwhile, and prints a line when
 * the reader has waited for long. */
#include "verbs_common.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

static char *page;
static int fifo;
static volatile int is_done;

static void *read_it(void *nothing)
{
	CHECK(read(fifo, page, 4) == 4);
	is_done = 1;
	return nothing;
}

int main(int count, char **words)
{
	const struct timespec tick = {.tv_nsec = 200 * 1000 * 1000};
	pthread_t reader;
	pid_t child;
	int turn;

	CHECK(count == 2);
	fifo = open(words[1], O_RDWR);
	CHECK(fifo >= 0);
	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(page != MAP_FAILED);
	child = fork();
	CHECK(child >= 0);
	while (child == 0) pause();
	IS(0, pthread_create(&reader, NULL, read_it, NULL));
	for (turn = 0; !is_done; turn++) {
		nanosleep(&tick, NULL);
		if (turn == 100) {
			printf("it waits\n");
			fflush(stdout);
		}
	}
	IS(0, pthread_join(reader, NULL));
	printf("%.4s\n", page);
	kill(child, SIGKILL);
	CHECK(waitpid(child, NULL, 0) == child);
	return 0;
}
