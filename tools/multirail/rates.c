/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Computes the bandwidth of a node from the end times of its senders' windows. Only the time in
 * which all senders are active counts, because an idle sender leaves its bandwidth to the
 * others. */
#include "multirail.h"

#include <stdlib.h>
#include <string.h>

/* Consecutive windows of one sender, from one of its marks to the next. */
struct span {
	uint64_t from, to, windows;
};

void start_record(uint64_t *record)
{
	memset(record, 0, RECORD_WORDS * sizeof *record);
	record[STRIDE] = 1;
	record[BEGAN] = record[LAST] = now_ns();
}

/* Records the end of a window. Drops every other mark if there is no room for a new one. */
void record_window(uint64_t *record)
{
	uint64_t now = now_ns(), took = now - record[LAST], *marks = record + MARKS;

	if (!record[WINDOWS] || took < record[BEST])
		record[BEST] = took;
	record[LAST] = now;
	record[WINDOWS]++;
	if (record[WINDOWS] % record[STRIDE])
		return;
	marks[record[MARKED]++] = now;
	if (record[MARKED] < MARKS_MAX)
		return;
	for (int i = 0; i < MARKS_MAX / 2; i++)
		marks[i] = marks[2 * i + 1];
	record[MARKED] = MARKS_MAX / 2;
	record[STRIDE] *= 2;
}

void record_measured(uint64_t *record)
{
	record[MEASURED] = record[LAST];
}

void shift_record(uint64_t *record, int64_t by)
{
	record[BEGAN] += (uint64_t)by;
	record[MEASURED] += (uint64_t)by;
	record[LAST] += (uint64_t)by;
	for (uint64_t i = 0; i < record[MARKED]; i++)
		record[MARKS + i] += (uint64_t)by;
}

/* Computes the spans of a sender. The last span ends with the last window, with or without a
 * mark. */
static size_t spans_of(const uint64_t *record, struct span *spans)
{
	size_t count = 0;
	uint64_t from = record[BEGAN], left = record[WINDOWS] - record[MARKED] * record[STRIDE];

	for (; count < record[MARKED]; count++) {
		spans[count] = (struct span){from, record[MARKS + count], record[STRIDE]};
		from = record[MARKS + count];
	}
	if (left)
		spans[count++] = (struct span){from, record[LAST], left};
	return count;
}

/* Returns the number of a span's windows that lie between `from` and `to`. */
static double share_within(const struct span *span, uint64_t from, uint64_t to)
{
	uint64_t first = span->from > from ? span->from : from, last = span->to < to ? span->to : to;

	if (last <= first)
		return 0;
	return (double)span->windows * (double)(last - first) / (double)(span->to - span->from);
}

static int by_end(const void *left, const void *right)
{
	const struct span *a = left, *b = right;

	return a->to < b->to ? -1 : a->to > b->to;
}

/* Returns the highest rate of whole windows between two moments, in windows a nanosecond. The bus
 * carried these windows in this time only, so the rate cannot exceed the bus. Sorts the spans. */
static double best_of(struct span *spans, size_t count, uint64_t from, uint64_t to)
{
	double best = 0;

	qsort(spans, count, sizeof *spans, by_end);
	for (size_t first = 0; first < count; first++) {
		uint64_t start = spans[first].from, windows = 0;

		if (start < from)
			continue;
		for (size_t i = 0; i < count && spans[i].to <= to; i++) {
			double rate;

			if (spans[i].from < start)
				continue;
			windows += spans[i].windows;
			rate = (double)windows / (double)(spans[i].to - start);
			if (rate > best)
				best = rate;
		}
	}
	return best;
}

void rates(const uint64_t *const *senders, int count, double *peak, double *average)
{
	uint64_t from = 0, to = 0;
	double windows = 0;
	size_t all = 0;
	struct span *spans = malloc((size_t)count * (MARKS_MAX + 1) * sizeof *spans);

	if (!spans)
		fail("no memory");
	for (int i = 0; i < count; i++) {
		all += spans_of(senders[i], spans + all);
		if (senders[i][BEGAN] > from)
			from = senders[i][BEGAN];
		if (senders[i][MEASURED] > to)
			to = senders[i][MEASURED];
	}
	for (size_t i = 0; i < all; i++)
		windows += share_within(&spans[i], from, to);
	*average = windows / (double)(to - from);
	*peak = count == 1 ? 1 / (double)senders[0][BEST] : best_of(spans, all, from, to);
	/* Windows of several senders seldom align, so a few of them count for less than all. */
	if (*peak < *average)
		*peak = *average;
	free(spans);
}
