/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * `pthread_cancel` ends threads that wait for events. The verbs wait in `read`, a cancellation
 * point. */
#include "verbs_common.h"
#include <pthread.h>
#include <time.h>

static struct ibv_context *context;
static struct ibv_comp_channel *channel;

static void *waits_for_completions(void *argument)
{
	struct ibv_cq *cq;

	ibv_get_cq_event(channel, &cq, &argument);
	return NULL;
}

static void *waits_for_others(void *argument)
{
	struct ibv_async_event event;

	(void)argument;
	ibv_get_async_event(context, &event);
	return NULL;
}

static void ends_when_cancelled(void *(*body)(void *), const char *what)
{
	pthread_t thread;
	struct timespec until;
	void *result;

	CHECK(pthread_create(&thread, NULL, body, NULL) == 0);
	usleep(100000);
	CHECK(pthread_cancel(thread) == 0 && clock_gettime(CLOCK_REALTIME, &until) == 0);
	until.tv_sec += PATIENCE_SECONDS;
	IS(0, pthread_timedjoin_np(thread, &result, &until));
	CHECK(result == PTHREAD_CANCELED);
	printf("ok a thread that waits for %s\n", what);
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices != NULL && devices[0] != NULL && (context = ibv_open_device(devices[0])) != NULL);
	CHECK((channel = ibv_create_comp_channel(context)) != NULL && ibv_create_cq(context, 8, NULL, channel, 0) != NULL);
	ends_when_cancelled(waits_for_completions, "completions");
	ends_when_cancelled(waits_for_others, "asynchronous events");
	puts("all parts hold");
	return 0;
}
