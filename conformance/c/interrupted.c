/* Signals of another process of the run: each interrupts a wait of this one at the time of the call.
 * Prints each wait with its outcome, the time, and the number of signals handled so far. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)
enum { STEP_MS = 100 };

static volatile sig_atomic_t handled, sender_is_right, value;
static pid_t child;

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	handled++;
	sender_is_right += info->si_code == SI_USER || info->si_code == SI_QUEUE || info->si_code == SI_TKILL;
	if (info->si_code == SI_QUEUE) value = info->si_value.sival_int;
}

static void handle(int flags)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
	CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
}

static long long now_us(void)
{
	struct timespec now;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static long long begun;

static void say(const char *what, long status)
{
	const char *outcome = status < 0 ? strerror(errno) : "done";
	printf("%s: %s after %lld ms, %d handled\n", what, outcome, (now_us() - begun + 500) / 1000, (int)handled);
	begun = now_us();
}

/* Starts a child that does something after a step, and perhaps something more after another. */
static void after_a_step(void (*act)(int), int argument, void (*more)(int), int more_argument)
{
	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		struct timespec step = {.tv_nsec = STEP_MS * 1000000};
		nanosleep(&step, NULL);
		act(argument);
		if (more) {
			nanosleep(&step, NULL);
			more(more_argument);
		}
		_exit(0);
	}
	begun = now_us();
}

static void reap(void)
{
	int status;
	while (waitpid(child, &status, 0) < 0) CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void by_kill(int number) { CHECK(kill(getppid(), number) == 0); }
static void by_queue(int number) { CHECK(sigqueue(getppid(), number, (union sigval){.sival_int = 42}) == 0); }
static void by_tgkill(int number) { CHECK(syscall(SYS_tgkill, getppid(), getppid(), number) == 0); }
static void by_write(int fd) { CHECK(write(fd, "x", 1) == 1); }

static void connect_pair(int ends[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof at;
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(bind(listener, (struct sockaddr *)&at, len) == 0 && listen(listener, 1) == 0);
	CHECK(getsockname(listener, (struct sockaddr *)&at, &len) == 0);
	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	CHECK(connect(ends[0], (struct sockaddr *)&at, len) == 0);
	ends[1] = accept(listener, NULL, NULL);
	CHECK(ends[1] >= 0 && close(listener) == 0);
}

int main(void)
{
	int ends[2], through[2], epoll = epoll_create1(0);
	char byte;
	struct timespec second = {.tv_sec = 1}, rest = {0};
	sigset_t usr, none;
	setvbuf(stdout, NULL, _IOLBF, 0);
	connect_pair(ends);
	CHECK(pipe(through) == 0 && epoll >= 0);
	struct epoll_event event = {.events = EPOLLIN};
	CHECK(epoll_ctl(epoll, EPOLL_CTL_ADD, ends[1], &event) == 0);
	handle(0);

	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("nanosleep", nanosleep(&second, &rest));
	printf("rest: %ld ms\n", (rest.tv_nsec + 500000) / 1000000);
	reap();
	after_a_step(by_queue, SIGUSR1, NULL, 0);
	say("poll", poll(&(struct pollfd){ends[1], POLLIN, 0}, 1, 1000));
	printf("value: %d\n", (int)value);
	reap();
	after_a_step(by_tgkill, SIGUSR1, NULL, 0);
	say("epoll_wait", epoll_wait(epoll, &event, 1, 1000));
	reap();
	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("recv", recv(ends[1], &byte, 1, 0));
	reap();
	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("read of a pipe", read(through[0], &byte, 1));
	reap();
	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("pause", pause());
	reap();
	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("select", select(0, NULL, NULL, NULL, &(struct timeval){.tv_sec = 1}));
	reap();

	/* With SA_RESTART, reads go on, and sleeps do not. */
	handle(SA_RESTART);
	after_a_step(by_kill, SIGUSR1, by_write, ends[0]);
	say("recv that restarts", recv(ends[1], &byte, 1, 0));
	reap();
	after_a_step(by_kill, SIGUSR1, by_write, through[1]);
	say("read of a pipe that restarts", read(through[0], &byte, 1));
	reap();
	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("nanosleep", nanosleep(&second, NULL));
	reap();

	/* A blocked signal interrupts nothing until a wait lets it in. */
	handle(0);
	sigemptyset(&none);
	sigemptyset(&usr);
	sigaddset(&usr, SIGUSR1);
	CHECK(sigprocmask(SIG_BLOCK, &usr, NULL) == 0);
	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("nanosleep with the signal blocked", nanosleep(&second, NULL));
	say("ppoll that lets it in", ppoll(NULL, 0, &second, &none));
	reap();
	after_a_step(by_kill, SIGUSR1, NULL, 0);
	say("ppoll that waits for it", ppoll(NULL, 0, &second, &none));
	reap();
	CHECK(sigprocmask(SIG_UNBLOCK, &usr, NULL) == 0);

	/* An ignored signal interrupts nothing. */
	signal(SIGUSR2, SIG_IGN);
	after_a_step(by_kill, SIGUSR2, NULL, 0);
	say("nanosleep with the signal ignored", nanosleep(&second, NULL));
	reap();
	printf("senders: %d of %d\n", (int)sender_is_right, (int)handled);
	return 0;
}
