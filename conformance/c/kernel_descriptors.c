/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * kernel_descriptors KIND WAY ROUNDS: a writer makes a descriptor of the kernel readable, again and
 * again. KIND is "eventfd", "pipe", "socket", "signalfd" (the writer is another thread) or "child"
 * (a pipe from a child process). The reader finds it by WAY: "poll" looks at a completion queue that
 * stays empty and then asks for the descriptor without a wait, "nonblocking" reads it without a wait
 * instead, "wait" waits in poll, "read" waits in read. The program prints the nanoseconds from the
 * write to its discovery, on average and at most. */
#include "verbs_common.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>

static int reading, writing, rounds, is_signal;
static const char *kind;

static void nap(long nanoseconds)
{
	struct timespec time = {.tv_nsec = nanoseconds};

	nanosleep(&time, NULL);
}

/* Makes the descriptor readable. Eight bytes hold the time of the write, if the kind carries it. */
static void write_once(double *at)
{
	union sigval none = {0};
	uint64_t one = 1;

	*at = seconds();
	if (is_signal) IS(0, sigqueue(getpid(), SIGUSR1, none));
	else if (strcmp(kind, "eventfd") == 0) IS(0, eventfd_write(writing, one));
	else CHECK(write(writing, at, sizeof *at) == sizeof *at);
}

static double written_at;

/* Writes at times that no growing pause of the reader meets. */
static void *write_all(void *unused)
{
	for (int round = 0; round < rounds; round++) {
		nap(3000000 + round * 217000);
		write_once(&written_at);
	}
	return unused;
}

static void open_ends(void)
{
	sigset_t set;
	int ends[2];

	if (strcmp(kind, "eventfd") == 0) {
		reading = writing = eventfd(0, 0);
	} else if (strcmp(kind, "socket") == 0) {
		IS(0, socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
		reading = ends[0], writing = ends[1];
	} else if (strcmp(kind, "signalfd") == 0) {
		is_signal = 1;
		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		IS(0, pthread_sigmask(SIG_BLOCK, &set, NULL));
		reading = signalfd(-1, &set, 0);
	} else {
		IS(0, pipe(ends));
		reading = ends[0], writing = ends[1];
	}
	CHECK(reading >= 0);
}

/* Takes what the writer wrote. Returns the time of the write. */
static double take(void)
{
	char room[sizeof(struct signalfd_siginfo)];
	double at;
	ssize_t count = read(reading, room, is_signal ? sizeof room : sizeof at);

	if (count < 0) return 0;
	if (strcmp(kind, "child") != 0) return written_at;
	memcpy(&at, room, sizeof at);
	return at;
}

/* Finds the next write by the way. Returns its time. */
static double find(const char *way, struct ibv_cq *empty)
{
	struct pollfd set = {.fd = reading, .events = POLLIN};
	struct ibv_wc wc;
	double at;

	if (strcmp(way, "wait") == 0) CHECK(poll(&set, 1, -1) == 1);
	if (strcmp(way, "poll") == 0)
		do CHECK(ibv_poll_cq(empty, 1, &wc) == 0);
		while (poll(&set, 1, 0) == 0);
	if (strcmp(way, "nonblocking") == 0) {
		do CHECK(ibv_poll_cq(empty, 1, &wc) == 0);
		while ((at = take()) == 0);
		return at;
	}
	return take();
}

int main(int count, char **words)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	double sum = 0, most = 0;
	pthread_t writer;
	pid_t child = 0;

	CHECK(count == 4 && list && list[0]);
	kind = words[1];
	rounds = atoi(words[3]);
	open_ends();
	if (strcmp(words[2], "nonblocking") == 0) IS(0, fcntl(reading, F_SETFL, O_NONBLOCK));
	if (strcmp(kind, "child") == 0) {
		if ((child = fork()) == 0) {
			write_all(NULL);
			_exit(0);
		}
	} else {
		IS(0, pthread_create(&writer, NULL, write_all, NULL));
	}
	struct ibv_context *context = ibv_open_device(list[0]);
	CHECK(context != NULL);
	struct ibv_cq *empty = ibv_create_cq(context, 16, NULL, NULL, 0);
	CHECK(empty != NULL);
	for (int round = 0; round < rounds; round++) {
		double at = find(words[2], empty), late = seconds() - at;
		sum += late;
		if (late > most) most = late;
	}
	if (child > 0) CHECK(waitpid(child, NULL, 0) == child);
	else IS(0, pthread_join(writer, NULL));
	printf("late %.0f %.0f\n", sum / rounds * 1e9, most * 1e9);
	return 0;
}
