/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * yields REGISTRATIONS: a thread asks for a descriptor that is ready, reads a clock and yields, until
 * the first thread has made its registrations. UCX's progress thread does so while another thread has
 * its lock. Prints the number of yields, and the microseconds that the registrations take. */
#include "verbs_common.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

static volatile int is_done;

static double micros(void)
{
	struct timespec now;

	CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0);
	return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void *yield_until_done(void *yields)
{
	int ready = eventfd(1, 0), list = epoll_create1(0);
	struct epoll_event event = {.events = EPOLLIN};

	CHECK(epoll_ctl(list, EPOLL_CTL_ADD, ready, &event) == 0);
	while (!is_done) {
		CHECK(epoll_wait(list, &event, 1, 1000) == 1);
		micros();
		sched_yield();
		++*(long *)yields;
	}
	return NULL;
}

int main(int count, char **words)
{
	static char buffer[4096];
	struct ibv_device **devices = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	pthread_t thread;
	long yields = 0;
	double start;

	CHECK(count == 2 && devices && devices[0]);
	context = ibv_open_device(devices[0]);
	CHECK(context != NULL);
	pd = ibv_alloc_pd(context);
	CHECK(pd != NULL);
	CHECK(pthread_create(&thread, NULL, yield_until_done, &yields) == 0);
	start = micros();
	for (int i = 0; i < atoi(words[1]); i++) {
		struct ibv_mr *region = ibv_reg_mr(pd, buffer, sizeof buffer, IBV_ACCESS_LOCAL_WRITE);

		CHECK(region != NULL);
		CHECK(ibv_dereg_mr(region) == 0);
	}
	start = micros() - start;
	is_done = 1;
	CHECK(pthread_join(thread, NULL) == 0);
	printf("%ld %.0f\n", yields, start);
	return 0;
}
