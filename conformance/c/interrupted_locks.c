/* Signals of another process of the run: semaphores and futexes fail or begin again, mutexes and
 * conditions run the handler and go on waiting, and real-time signals queue. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("line %d: %s (%s)\n", __LINE__, #what, strerror(errno)); exit(1); } } while (0)
enum { STEP_MS = 100, VALUES_MAX = 16 };

static volatile sig_atomic_t handled, value_count, values[VALUES_MAX];
static volatile int posts;
static volatile long long handled_us;
static sem_t semaphore;
static int word;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;

static long long now_us(void)
{
	struct timespec now;
	CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)context;
	handled++;
	handled_us = now_us();
	if (info->si_code == SI_QUEUE && value_count < VALUES_MAX) values[value_count++] = info->si_value.sival_int;
	if (posts) sem_post(&semaphore);
}

static void handle(int number, int flags)
{
	struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | flags};
	CHECK(sigaction(number, &action, NULL) == 0);
}

static long long begun;

static void say(const char *what, int error)
{
	const char *outcome = error ? strerror(error) : "done";
	printf("%s: %s after %lld ms, handler at %lld ms, %d handled\n", what, outcome, (now_us() - begun + 500) / 1000,
	       (handled_us - begun + 500) / 1000, (int)handled);
}

static void pass_ms(int millis)
{
	struct timespec rest = {.tv_sec = millis / 1000, .tv_nsec = millis % 1000 * 1000000L};
	while (nanosleep(&rest, &rest) != 0) CHECK(errno == EINTR);
}

static void signal_after_a_step(int number)
{
	fflush(stdout);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pass_ms(STEP_MS);
		CHECK(kill(getppid(), number) == 0);
		_exit(0);
	}
	begun = now_us();
}

static void reap(void)
{
	int status;
	while (wait(&status) < 0) CHECK(errno == EINTR);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static struct timespec in_a_second(void)
{
	struct timespec then;
	CHECK(clock_gettime(CLOCK_REALTIME, &then) == 0);
	then.tv_sec++;
	return then;
}

static int error_of(long status) { return status < 0 ? errno : 0; }

static void wait_for_semaphores_and_futexes(void)
{
	struct timespec then, second = {.tv_sec = 1};
	handle(SIGUSR1, 0);
	signal_after_a_step(SIGUSR1);
	say("sem_wait", error_of(sem_wait(&semaphore)));
	reap();
	signal_after_a_step(SIGUSR1);
	then = in_a_second();
	say("sem_timedwait", error_of(sem_timedwait(&semaphore, &then)));
	reap();
	signal_after_a_step(SIGUSR1);
	say("futex", error_of(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0)));
	reap();
	signal_after_a_step(SIGUSR1);
	say("shared futex", error_of(syscall(SYS_futex, &word, FUTEX_WAIT, 0, NULL, NULL, 0)));
	reap();
	posts = 1;
	signal_after_a_step(SIGUSR1);
	say("sem_wait with a post by the handler", error_of(sem_wait(&semaphore)));
	reap();
	CHECK(sem_trywait(&semaphore) == 0);

	/* With SA_RESTART, waits without a limit begin again. */
	handle(SIGUSR1, SA_RESTART);
	signal_after_a_step(SIGUSR1);
	say("sem_wait that restarts", error_of(sem_wait(&semaphore)));
	reap();
	CHECK(sem_trywait(&semaphore) != 0);
	posts = 0;
	signal_after_a_step(SIGUSR1);
	then = in_a_second();
	say("sem_timedwait", error_of(sem_timedwait(&semaphore, &then)));
	reap();
	signal_after_a_step(SIGUSR1);
	say("futex with a limit", error_of(syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &second, NULL, 0)));
	reap();
}

static void wait_for_messages(void)
{
	struct { long kind; char bytes[8]; } message;
	struct sembuf down = {.sem_op = -1};
	int queue = msgget(IPC_PRIVATE, 0600), set = semget(IPC_PRIVATE, 1, 0600);
	CHECK(queue >= 0 && set >= 0);
	handle(SIGUSR1, 0);
	signal_after_a_step(SIGUSR1);
	say("msgrcv", error_of(msgrcv(queue, &message, sizeof message.bytes, 0, 0)));
	reap();
	signal_after_a_step(SIGUSR1);
	say("semop", error_of(semop(set, &down, 1)));
	reap();
	CHECK(msgctl(queue, IPC_RMID, NULL) == 0 && semctl(set, 0, IPC_RMID) == 0);
}

static void *hold_for_three_steps(void *unused)
{
	sigset_t all;
	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, NULL);
	pthread_mutex_lock(&mutex);
	pass_ms(3 * STEP_MS);
	pthread_mutex_unlock(&mutex);
	return unused;
}

static void wait_for_mutexes_and_conditions(void)
{
	pthread_t holder;
	handle(SIGUSR1, 0);
	CHECK(pthread_create(&holder, NULL, hold_for_three_steps, NULL) == 0);
	pass_ms(STEP_MS / 2);
	signal_after_a_step(SIGUSR1);
	say("mutex", pthread_mutex_lock(&mutex));
	reap();
	signal_after_a_step(SIGUSR1);
	struct timespec then = in_a_second();
	say("condition", pthread_cond_timedwait(&cond, &mutex, &then));
	reap();
	CHECK(pthread_mutex_unlock(&mutex) == 0 && pthread_join(holder, NULL) == 0);
}

static void queue_values(void)
{
	int number = SIGRTMIN + 3;
	handle(number, 0);
	fflush(stdout);
	pid_t child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		pass_ms(STEP_MS);
		for (int value = 1; value <= 5; value++) CHECK(sigqueue(getppid(), number, (union sigval){.sival_int = value}) == 0);
		_exit(0);
	}
	pass_ms(10 * STEP_MS);
	reap();
	printf("values:");
	for (int each = 0; each < value_count; each++) printf(" %d", (int)values[each]);
	printf("\n");
}

int main(void)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	CHECK(sem_init(&semaphore, 0, 0) == 0);
	wait_for_semaphores_and_futexes();
	wait_for_messages();
	wait_for_mutexes_and_conditions();
	queue_values();
	return 0;
}
