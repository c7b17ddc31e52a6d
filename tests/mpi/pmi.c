/* SPDX-License-Identifier: MIT OR Apache-2.0
 * The functions of PMI-1 that Open MPI 4 loads from FLUX_PMI_LIBRARY_PATH, over the protocol of
 * pmi_server.py. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SUCCESS = 0, FAIL = -1, LINE = 4096 };

static int server = -1;
static int rank, size;

static int next_line(char *line)
{
	for (int length = 0; length < LINE - 1; length++) {
		if (read(server, line + length, 1) != 1)
			return FAIL;
		if (line[length] == '\n') {
			line[length] = 0;
			return SUCCESS;
		}
	}
	return FAIL;
}

static int ask(const char *command, char *answer)
{
	char line[LINE];
	int length = snprintf(line, sizeof line, "%s\n", command);

	if (write(server, line, length) != length)
		return FAIL;
	return next_line(answer);
}

static int number_after(const char *key, const char *line)
{
	const char *found = strstr(line, key);

	return found ? atoi(found + strlen(key)) : -1;
}

static int dial(const char *address)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_STREAM}, *found;
	char host[256];
	const char *colon = strrchr(address, ':');
	int fd;

	if (!colon || (size_t)(colon - address) >= sizeof host)
		return -1;
	memcpy(host, address, colon - address);
	host[colon - address] = 0;
	if (getaddrinfo(host, colon + 1, &hints, &found))
		return -1;
	fd = socket(AF_INET, SOCK_STREAM, 0);
	if (fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen)) {
		close(fd);
		fd = -1;
	}
	freeaddrinfo(found);
	return fd;
}

int PMI_Init(int *spawned)
{
	const char *address = getenv("PMI_PORT"), *id = getenv("PMI_ID");
	char line[LINE], command[64];

	*spawned = 0;
	server = address && id ? dial(address) : -1;
	if (server < 0)
		return FAIL;
	snprintf(command, sizeof command, "cmd=initack pmiid=%s", id);
	if (ask(command, line))
		return FAIL;
	for (int i = 0; i < 3; i++) {
		if (next_line(line))
			return FAIL;
		if (strstr(line, "size="))
			size = number_after("size=", line);
		if (strstr(line, "rank="))
			rank = number_after("rank=", line);
	}
	return ask("cmd=init pmi_version=1 pmi_subversion=1", line);
}

int PMI_Initialized(int *initialized)
{
	*initialized = server >= 0;
	return SUCCESS;
}

int PMI_Finalize(void)
{
	char line[LINE];
	int failed = ask("cmd=finalize", line);

	close(server);
	server = -1;
	return failed;
}

int PMI_Get_size(int *out)
{
	*out = size;
	return SUCCESS;
}

int PMI_Get_universe_size(int *out)
{
	return PMI_Get_size(out);
}

int PMI_Get_rank(int *out)
{
	*out = rank;
	return SUCCESS;
}

int PMI_Get_appnum(int *out)
{
	*out = 0;
	return SUCCESS;
}

int PMI_KVS_Get_my_name(char *name, int length)
{
	snprintf(name, length, "job");
	return SUCCESS;
}

int PMI_KVS_Get_name_length_max(int *length)
{
	*length = 256;
	return SUCCESS;
}

int PMI_Get_id_length_max(int *length)
{
	return PMI_KVS_Get_name_length_max(length);
}

int PMI_KVS_Get_key_length_max(int *length)
{
	*length = 64;
	return SUCCESS;
}

int PMI_KVS_Get_value_length_max(int *length)
{
	*length = 1024;
	return SUCCESS;
}

int PMI_KVS_Put(const char *kvs, const char *key, const char *value)
{
	char line[LINE], command[LINE];

	snprintf(command, sizeof command, "cmd=put kvsname=%s key=%s value=%s", kvs, key, value);
	return ask(command, line);
}

int PMI_KVS_Commit(const char *kvs)
{
	(void)kvs;
	return SUCCESS;
}

int PMI_KVS_Get(const char *kvs, const char *key, char *value, int length)
{
	char line[LINE], command[512];
	const char *found;

	snprintf(command, sizeof command, "cmd=get kvsname=%s key=%s", kvs, key);
	if (ask(command, line) || !strstr(line, "rc=0"))
		return FAIL;
	found = strstr(line, "value=");
	if (!found || strlen(found + 6) >= (size_t)length)
		return FAIL;
	strcpy(value, found + 6);
	return SUCCESS;
}

int PMI_Barrier(void)
{
	char line[LINE];

	return ask("cmd=barrier_in", line);
}

int PMI_Abort(int status, const char *message)
{
	fprintf(stderr, "%s\n", message);
	_exit(status);
}

/* Reads the places of the ranks from "(vector,(0,4,1),(0,4,1))": each round has one rank a host. */
static int clique(int *ranks)
{
	char mapping[1024];
	int rounds[256], count = 0, own = 0, base = 0, found = 0;

	if (PMI_KVS_Get("job", "PMI_process_mapping", mapping, sizeof mapping))
		return FAIL;
	for (char *at = mapping; count < 256 && (at = strstr(at, "(0,")); at++)
		rounds[count++] = atoi(at + 3);
	for (int i = 0, first = 0; i < count; first += rounds[i++])
		if (rank >= first && rank < first + rounds[i])
			own = rank - first;
	for (int i = 0; i < count; base += rounds[i++])
		if (own < rounds[i]) {
			if (ranks)
				ranks[found] = base + own;
			found++;
		}
	return found;
}

int PMI_Get_clique_size(int *out)
{
	*out = clique(NULL);
	return *out < 0 ? FAIL : SUCCESS;
}

int PMI_Get_clique_ranks(int *ranks, int length)
{
	(void)length;
	return clique(ranks) < 0 ? FAIL : SUCCESS;
}
