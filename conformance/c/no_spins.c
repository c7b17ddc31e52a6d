/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * no_spins WAY ROUNDS: computes for ROUNDS rounds, and looks in each at registered memory that no
 * peer writes. The program waits for nothing. WAY is the way in which the rounds differ:
 *   state        by a state in memory; all registers are equal at each look
 *   loop         by a counter in memory; all registers are equal at each look
 *   converge     by a number that comes nearer to a bound; its comparison has the same flags each time
 *   stride       by a counter in large steps; its comparison has the same flags each time
 *   coefficient  by the elements of two fields
 *   interpreter  by the variables of an interpreted program; the interpreter tests each look
 * Prints the nanoseconds of the computation. */
#include "verbs_common.h"

static volatile uint64_t state = 1;
static volatile long counter;
static volatile int mode;

/* Looks at the word. Nothing of the caller is in a register or a flag then. */
__attribute__((noinline)) static int look(volatile uint8_t *word)
{
	if (mode != 0) return -1;
	return *word;
}

__attribute__((noinline)) static void by_state(volatile uint8_t *word, long rounds)
{
	for (counter = 0; counter < rounds; counter++) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		if (look(word) != 0) FAIL("something came");
	}
}

__attribute__((noinline)) static void by_counter(volatile uint8_t *word, long rounds)
{
	int last = 0;

	for (counter = 0; counter < rounds; counter++)
		last = look(word);
	CHECK(last == 0);
}

static void by_fields(volatile double *coefficient, long rounds)
{
	enum { LEN = 1 << 16 };
	volatile double *from = calloc(LEN, sizeof *from), *to = calloc(LEN, sizeof *to);

	CHECK(from && to);
	for (long round = 0; round < rounds; round++)
		to[round % LEN] = *coefficient * from[round % LEN] + 1;
	CHECK(to[0] == 1);
}

static void by_approach(volatile double *factor, long rounds)
{
	double number = 1, bound = 1;

	*factor = 1 - 1e-6;
	for (long round = 0; round < rounds; round++)
		bound *= 1 - 1e-6;
	while (number > bound)
		number *= *factor;
	CHECK(number <= bound);
	*factor = 0;
}

static void by_stride(volatile uint8_t *word, long rounds)
{
	uint64_t sum = 0;

	for (uint64_t at = 0; at < (uint64_t)rounds << 12; at += 1 << 12)
		sum += at + *word;
	CHECK(sum != 0);
}

/* An object of the interpreted program. The constant lies in registered memory. */
struct object {
	uint8_t type, is_negative;
	uint64_t value;
};

static void interpret(volatile struct object *constant, long rounds)
{
	enum { NUMBER = 0, ADD = 1, MULTIPLY, LOOP };
	static volatile uint8_t code[] = {MULTIPLY, ADD, LOOP};
	volatile struct object *sum = calloc(1, sizeof *sum);
	volatile int at = 0;

	CHECK(sum);
	for (counter = 0; counter < rounds;) {
		switch (code[at]) {
		case MULTIPLY:
			sum->value = sum->value * 31 + 7;
			at = at + 1;
			break;
		case ADD:
			if (constant->type != NUMBER) FAIL("no number");
			sum->value = constant->is_negative ? sum->value - constant->value : sum->value + constant->value;
			at = at + 1;
			break;
		default:
			counter = counter + 1;
			at = 0;
		}
	}
}

int main(int count, char **words)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct timespec begin, end;
	uint8_t *buffer = aligned_alloc(4096, 4096);
	long rounds;

	CHECK(count == 3 && list && list[0] && buffer);
	context = ibv_open_device(list[0]);
	CHECK(context != NULL);
	pd = ibv_alloc_pd(context);
	CHECK(pd != NULL);
	memset(buffer, 0, 4096);
	CHECK(ibv_reg_mr(pd, buffer, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE) != NULL);
	rounds = atol(words[2]);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &begin) == 0);
	if (!strcmp(words[1], "state")) by_state(buffer, rounds);
	else if (!strcmp(words[1], "loop")) by_counter(buffer, rounds);
	else if (!strcmp(words[1], "converge")) by_approach((volatile double *)buffer, rounds);
	else if (!strcmp(words[1], "stride")) by_stride(buffer, rounds);
	else if (!strcmp(words[1], "coefficient")) by_fields((volatile double *)buffer, rounds);
	else if (!strcmp(words[1], "interpreter")) interpret((volatile struct object *)buffer, rounds);
	else FAIL("no way %s", words[1]);
	CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
	printf("%lld\n", (end.tv_sec - begin.tv_sec) * 1000000000LL + end.tv_nsec - begin.tv_nsec);
	return 0;
}
