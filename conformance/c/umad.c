/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The devices of management datagrams, umad0 and issm0. Nobody answers the requests: they go to a
 * LID that no port has. An argument "virtual" states that times are exact. */
#include "umad.h"
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/ib_user_mad.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define DEVICE "/dev/infiniband/umad0"
#define MANAGER "/dev/infiniband/issm0"

enum { HEADER = 64, RECORD = HEADER + MAD_BYTES, VENDOR = 0x32 };
/* An unknown request of the same driver. */
#define UNKNOWN _IO(IB_IOCTL_MAGIC, 0x77)

#define REFUSED(expected, call)                                                                                        \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		if ((call) != -1 || errno != (expected))                                                               \
			FAIL("%s does not fail with errno %d", #call, expected);                                       \
	} while (0)

static int is_virtual;

static double now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

/* Checks the time since `since`. The machine may be late, but never early. */
static void check_elapsed(double since, double expected)
{
	double elapsed = now_ms() - since;

	if (elapsed < expected - 0.01 || elapsed > expected + (is_virtual ? 0.2 : 2000))
		FAIL("%.3f ms have passed, not %.3f", elapsed, expected);
}

static int open_device(int flags)
{
	int fd = open(DEVICE, O_RDWR | flags);

	if (fd < 0)
		FAIL("%s does not open", DEVICE);
	CHECK(ioctl(fd, IB_USER_MAD_ENABLE_PKEY, 0) == 0);
	return fd;
}

static struct ib_user_mad_reg_req2 request(int qpn, int class)
{
	struct ib_user_mad_reg_req2 request = { .qpn = qpn, .mgmt_class = class, .mgmt_class_version = 1 };

	return request;
}

static int add_agent(int fd)
{
	struct ib_user_mad_reg_req2 client = { .qpn = 1 };

	CHECK(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &client) == 0);
	return client.id;
}

/* Writes a request of the performance class to nobody. */
static ssize_t ask(int fd, int agent, uint32_t transaction, int timeout_ms, int retries)
{
	uint8_t record[RECORD] = { 0 };
	struct ib_user_mad_hdr_old *header = (void *)record;
	uint8_t *mad = record + HEADER;

	header->id = agent;
	header->timeout_ms = timeout_ms;
	header->retries = retries;
	header->qpn = htobe32(1);
	header->qkey = htobe32(0x80010000);
	header->lid = htobe16(NOBODY);
	mad[0] = 1;
	mad[1] = PERFORMANCE;
	mad[2] = 1;
	mad[3] = 1;
	memcpy(mad + 12, &transaction, sizeof transaction);
	return write(fd, record, sizeof record);
}

/* Reads the report on a request that has had no answer. */
static void expect_report(int fd, int agent, uint32_t transaction)
{
	uint8_t record[RECORD];
	struct ib_user_mad_hdr_old *header = (void *)record;
	uint32_t upper;

	CHECK(read(fd, record, sizeof record) == HEADER + 24);
	CHECK(header->status == ETIMEDOUT && (int)header->id == agent);
	CHECK(be16toh(header->lid) == NOBODY);
	CHECK(memcmp(record + HEADER + 12, &transaction, sizeof transaction) == 0);
	memcpy(&upper, record + HEADER + 8, sizeof upper);
	CHECK(upper != 0);
}

static short ready(int fd, int timeout_ms)
{
	struct pollfd set = { .fd = fd, .events = POLLIN };

	CHECK(poll(&set, 1, timeout_ms) >= 0);
	return set.revents;
}

static void files(void)
{
	char text[64] = "";
	FILE *file = fopen("/sys/class/infiniband_mad/umad0/port", "r");
	struct stat about;

	CHECK(file != NULL && fgets(text, sizeof text, file) != NULL && !strcmp(text, "1\n"));
	fclose(file);
	CHECK(stat(DEVICE, &about) == 0 && S_ISCHR(about.st_mode));
	CHECK(stat(MANAGER, &about) == 0 && S_ISCHR(about.st_mode));
	REFUSED(ENOENT, open("/dev/infiniband/umad99", O_RDWR));
}

static void descriptors(void)
{
	int fd = open_device(O_NONBLOCK), copy;
	uint8_t record[RECORD];
	struct pollfd set = { .fd = fd, .events = POLLIN | POLLOUT };
	struct iovec parts[2] = { { record, HEADER }, { record + HEADER, MAD_BYTES } };
	struct stat about;

	CHECK(fstat(fd, &about) == 0 && S_ISCHR(about.st_mode));
	REFUSED(ENOTTY, ioctl(fd, UNKNOWN, 0));
	REFUSED(EAGAIN, read(fd, record, sizeof record));
	CHECK(poll(&set, 1, 0) == 1 && set.revents == POLLOUT);
	REFUSED(EIO, ask(fd, 0, 1, 10, 0));
	REFUSED(EINVAL, ask(fd, 32, 1, 10, 0));
	CHECK(add_agent(fd) == 0);
	REFUSED(EINVAL, write(fd, record, HEADER + 35));
	/* A device without lists takes each part as a record. */
	REFUSED(EINVAL, writev(fd, parts, 2));
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_ENABLE_PKEY, 0));

	/* A copy stands for the same file. */
	CHECK((copy = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0);
	CHECK(ask(fd, 0, 7, 20, 0) == RECORD);
	REFUSED(EINVAL, ask(fd, 0, 7, 20, 0));
	CHECK(close(fd) == 0);
	REFUSED(EBADF, ask(fd, 0, 8, 20, 0));
	CHECK(ready(copy, 5000) == POLLIN);
	REFUSED(EINVAL, read(copy, record, HEADER - 1));
	REFUSED(EINVAL, read(copy, record, HEADER + 23));
	CHECK(ready(copy, 0) == POLLIN);
	expect_report(copy, 0, 7);
	CHECK(ready(copy, 0) == 0);
	CHECK(close(copy) == 0);
}

static void registration(void)
{
	int fd = open_device(0), other = open_device(0);
	struct ib_user_mad_reg_req2 wanted = request(1, PERFORMANCE), bad;
	struct ib_user_mad_reg_req older = { .qpn = 1, .mgmt_class = PERFORMANCE, .mgmt_class_version = 1 };
	uint32_t id = 40;

	bad = request(2, PERFORMANCE);
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &bad));
	bad = request(0, PERFORMANCE);
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &bad));
	bad = request(1, 0x81);
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &bad));
	bad = request(1, VENDOR);
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &bad));
	bad = request(1, PERFORMANCE);
	bad.rmpp_version = 1;
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &bad));
	bad = request(1, PERFORMANCE);
	bad.flags = 0x10;
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &bad));
	CHECK(bad.flags == IB_USER_MAD_USER_RMPP);

	wanted.method_mask[0] = 1 << 1;
	CHECK(ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &wanted) == 0 && wanted.id == 0);
	REFUSED(EINVAL, ioctl(other, IB_USER_MAD_REGISTER_AGENT2, &wanted));
	older.method_mask[0] = 1 << 2;
	CHECK(ioctl(other, IB_USER_MAD_REGISTER_AGENT, &older) == 0 && older.id == 0);
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_REGISTER_AGENT, &older));
	for (int agent = 1; agent < 32; agent++)
		CHECK(add_agent(fd) == agent);
	bad = request(1, 0);
	REFUSED(ENOMEM, ioctl(fd, IB_USER_MAD_REGISTER_AGENT2, &bad));
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &id));
	id = 0;
	CHECK(ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &id) == 0);
	REFUSED(EINVAL, ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &id));
	CHECK(ioctl(other, IB_USER_MAD_REGISTER_AGENT2, &wanted) == 0 && wanted.id == 1);
	CHECK(close(fd) == 0 && close(other) == 0);
}

static void timeouts(void)
{
	int fd = open_device(0), first = add_agent(fd), second = add_agent(fd), queue = epoll_create1(0);
	struct epoll_event event = { .events = EPOLLIN };
	uint32_t id = second;
	double start = now_ms();
	fd_set set;

	/* Three attempts of 50 ms each. A request without a timeout has no report. */
	CHECK(ask(fd, first, 1, 50, 2) == RECORD);
	CHECK(ask(fd, second, 1, 0, 5) == RECORD);
	CHECK(ready(fd, 100) == 0);
	expect_report(fd, first, 1);
	check_elapsed(start, 150);

	/* The reports come in the order of time, each for its agent. */
	start = now_ms();
	CHECK(ask(fd, first, 2, 60, 0) == RECORD);
	CHECK(ask(fd, second, 2, 30, 0) == RECORD);
	CHECK(epoll_ctl(queue, EPOLL_CTL_ADD, fd, &event) == 0);
	CHECK(epoll_wait(queue, &event, 1, 5000) == 1 && event.events == EPOLLIN);
	check_elapsed(start, 30);
	expect_report(fd, second, 2);
	FD_ZERO(&set);
	FD_SET(fd, &set);
	CHECK(select(fd + 1, &set, NULL, NULL, NULL) == 1 && FD_ISSET(fd, &set));
	expect_report(fd, first, 2);
	check_elapsed(start, 60);

	/* An agent takes its requests along. */
	CHECK(ask(fd, second, 3, 20, 0) == RECORD);
	CHECK(ioctl(fd, IB_USER_MAD_UNREGISTER_AGENT, &id) == 0);
	CHECK(ready(fd, 60) == 0);
	CHECK(close(queue) == 0 && close(fd) == 0);
}

static void *read_report(void *file)
{
	expect_report(*(int *)file, 0, 9);
	return NULL;
}

/* The end of a file concerns no reader of another. */
static void closes(void)
{
	int fd = open_device(0), other = open_device(0);
	double start = now_ms();
	pthread_t reader;

	CHECK(add_agent(fd) == 0 && add_agent(other) == 0);
	CHECK(ask(fd, 0, 9, 80, 0) == RECORD && ask(other, 0, 9, 40, 0) == RECORD);
	CHECK(pthread_create(&reader, NULL, read_report, &fd) == 0);
	CHECK(close(other) == 0);
	CHECK(pthread_join(reader, NULL) == 0);
	check_elapsed(start, 80);
	CHECK(close(fd) == 0);
}

static void managers(void)
{
	int first = open(MANAGER, O_RDONLY | O_NONBLOCK), second;
	char byte;

	CHECK(first >= 0);
	REFUSED(EAGAIN, open(MANAGER, O_RDONLY | O_NONBLOCK));
	REFUSED(EINVAL, read(first, &byte, 1));
	REFUSED(ENOTTY, ioctl(first, IB_USER_MAD_ENABLE_PKEY, 0));
	CHECK(close(first) == 0);
	CHECK((second = open(MANAGER, O_RDONLY)) >= 0 && close(second) == 0);
}

int main(int argc, char **argv)
{
	is_virtual = argc > 1 && !strcmp(argv[1], "virtual");
	files();
	descriptors();
	registration();
	timeouts();
	closes();
	managers();
	use_library();
	puts("all parts hold");
	return 0;
}
