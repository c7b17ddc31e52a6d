// Connects Unix sockets.
//
//   unix_connect absent N   connects N times to a path without a listener; prints the nanoseconds
//   unix_connect full NS    connects to a listener whose queue is full; waits for at least NS
//   unix_connect ticks N    sleeps N times for a microsecond
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONNECTIONS 3
#define PAUSE_NS 1000000

static void check(int holds, const char *what)
{
	if (!holds) {
		perror(what);
		exit(1);
	}
}

static long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void pause_ns(long ns)
{
	struct timespec length = { 0, ns };

	nanosleep(&length, NULL);
}

static int connected(const struct sockaddr_un *to)
{
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	check(fd >= 0, "socket");
	int status = connect(fd, (const struct sockaddr *)to, sizeof(*to));
	int error = errno;

	close(fd);
	errno = error;
	return status;
}

static void absent(const struct sockaddr_un *to, int count)
{
	long begin = now_ns();

	for (int i = 0; i < count; i++)
		check(connected(to) == -1 && errno == ENOENT, "connect to no listener");
	printf("%ld\n", now_ns() - begin);
}

static void full(struct sockaddr_un *to, long least_ns)
{
	int status;
	int listener = socket(AF_UNIX, SOCK_STREAM, 0);

	snprintf(to->sun_path, sizeof(to->sun_path), "unix_connect.%d", getpid());
	check(bind(listener, (struct sockaddr *)to, sizeof(*to)) == 0, "bind");
	check(listen(listener, 0) == 0, "listen");
	pid_t child = fork();

	if (child == 0) {
		long begin = now_ns();

		for (int i = 0; i < CONNECTIONS; i++)
			check(connected(to) == 0, "connect");
		check(now_ns() - begin >= least_ns, "the wait for room");
		exit(0);
	}
	pause_ns(PAUSE_NS);
	for (int i = 0; i < CONNECTIONS; i++)
		check(accept(listener, NULL, NULL) >= 0, "accept");
	check(waitpid(child, &status, 0) == child && status == 0, "child");
	unlink(to->sun_path);
	puts("ok");
}

int main(int argc, char **argv)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX, .sun_path = "absent/socket" };
	const char *mode = argc > 1 ? argv[1] : "";
	int count = argc > 2 ? atoi(argv[2]) : 0;

	if (strcmp(mode, "absent") == 0) {
		absent(&to, count);
	} else if (strcmp(mode, "full") == 0) {
		full(&to, count);
	} else if (strcmp(mode, "ticks") == 0) {
		for (int i = 0; i < count; i++)
			pause_ns(1000);
	} else {
		fprintf(stderr, "usage: unix_connect absent N | full NS | ticks N\n");
		return 2;
	}
	return 0;
}
