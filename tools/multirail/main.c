/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "multirail.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_head(const struct rails *r, const struct options *o)
{
	printf("%.*s\n", 87, "-----------------------------------------------------------------------------------------");
	if (is_latency(o))
		printf("                    %s test\n", test_name(o->test));
	else
		printf("                    %s test: %s, %sdirectional, %d process%s a side, window %d\n", test_name(o->test),
		       policy_name(o->policy), o->bidirectional ? "bi" : "uni", o->procs, o->procs == 1 ? "" : "es", o->window);
	printf(" Device: %s   Ports:", ibv_get_device_name(r->context->device));
	for (int i = 0; i < r->count; i++)
		printf(" %d (LID %u)", r->rail[i].port, r->rail[i].attr.lid);
	printf("   MTU: %d   MB: 10^6 bytes\n", o->mtu ? o->mtu : 128 << r->rail[0].attr.active_mtu);
	printf("%.*s\n", 87, "-----------------------------------------------------------------------------------------");
	fflush(stdout);
}

/* Forks the processes before any verb, because children cannot use verbs objects of their
 * parent. */
static void fork_ranks(struct control *c)
{
	fflush(stdout);
	for (int rank = 1; rank < c->procs; rank++) {
		pid_t child = fork();

		if (child < 0)
			fail_errno("cannot fork");
		if (child == 0) {
			c->rank = rank;
			return;
		}
	}
}

static int children_failed(const struct control *c)
{
	int status, failed = 0;

	for (int rank = 1; c->rank == 0 && rank < c->procs; rank++)
		if (wait(&status) < 0 || status != 0)
			failed = 1;
	return failed;
}

int main(int argc, char **argv)
{
	struct control control = {0};
	struct options options;
	struct rails rails;

	parse_options(argc, argv, &options);
	control.side = options.server != NULL;
	control.procs = options.procs;
	if (!control.side)
		control_listen(&control, &options);
	fork_ranks(&control);
	control_join(&control, &options);
	rails_open(&rails, &options);
	rails_connect(&rails, &control, &options);
	if (control.rank == 0)
		print_head(&rails, &options);
	if (is_latency(&options))
		run_latency(&rails, &control, &options);
	else
		run_bandwidth(&rails, &control, &options);
	barrier(&control);
	return children_failed(&control);
}
