/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * At wall pace the parent of this process is the engine. These functions stop it for a while, so
 * that the program cannot use it. The engine always continues. */
#ifndef ENGINE_STOP_H
#define ENGINE_STOP_H

#include "verbs_common.h"
#include <signal.h>
#include <sys/syscall.h>

static pid_t stopped_engine;

static void engine_goes_on(void)
{
	alarm(0);
	if (stopped_engine)
		kill(stopped_engine, SIGCONT);
	stopped_engine = 0;
}

static void engine_is_missed(int signal)
{
	static const char text[] = "FAILED: no progress without the engine\n";

	(void)signal;
	if (stopped_engine)
		kill(stopped_engine, SIGCONT);
	if (write(2, text, sizeof text - 1))
		_exit(1);
	_exit(1);
}

static void engine_stands_still(void)
{
	CHECK(signal(SIGALRM, engine_is_missed) != SIG_ERR && atexit(engine_goes_on) == 0);
	alarm(PATIENCE_SECONDS);
	stopped_engine = syscall(SYS_getppid);
	IS(0, kill(stopped_engine, SIGSTOP));
}
#endif
