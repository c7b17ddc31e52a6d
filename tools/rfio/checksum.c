/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "rfio.h"

#include <endian.h>
#include <string.h>

static const uint64_t BASIS = 0xcbf29ce484222325, PRIME = 0x100000001b3;

uint64_t checksum_start(void)
{
	return BASIS;
}

uint64_t checksum(uint64_t sum, const uint8_t *data, size_t bytes)
{
	uint64_t word;

	for (; bytes >= sizeof word; bytes -= sizeof word, data += sizeof word) {
		memcpy(&word, data, sizeof word);
		sum = (sum ^ le64toh(word)) * PRIME;
	}
	if (bytes) {
		word = 0;
		memcpy(&word, data, bytes);
		sum = (sum ^ le64toh(word)) * PRIME;
	}
	return sum;
}
