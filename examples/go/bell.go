// Bell rings on another host: each ring is an RDMA message with immediate data, without a payload.
package main

/*
#cgo LDFLAGS: -lrdmacm -libverbs
#include <errno.h>
#include <stdlib.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

static int create(struct rdma_cm_id **id, const char *server)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_TCP, .ai_flags = server ? 0 : RAI_PASSIVE };
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 1, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1 },
		.sq_sig_all = 1,
	};
	struct rdma_addrinfo *address;
	int status = rdma_getaddrinfo(server, "7474", &hints, &address);

	if (status)
		return status;
	status = rdma_create_ep(id, address, NULL, &attr);
	rdma_freeaddrinfo(address);
	return status;
}

static int expect_ring(struct rdma_cm_id *id)
{
	struct ibv_recv_wr wr = { 0 }, *bad;

	return ibv_post_recv(id->qp, &wr, &bad);
}

static int wait_ring(struct rdma_cm_id *id, uint32_t *number)
{
	struct ibv_wc wc;

	if (rdma_get_recv_comp(id, &wc) < 0)
		return -1;
	*number = ntohl(wc.imm_data);
	return wc.status;
}

static int ring(struct rdma_cm_id *id, uint32_t number)
{
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = htonl(number) }, *bad;
	struct ibv_wc wc;

	errno = ibv_post_send(id->qp, &wr, &bad);
	if (errno || rdma_get_send_comp(id, &wc) < 0)
		return -1;
	return wc.status;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"
)

// credits is the number of rings for which the bell has a receive.
const credits = 16

func completed(step string, status C.int, err error) error {
	switch {
	case status < 0:
		return fmt.Errorf("%s: %w", step, err)
	case status > 0:
		return errors.New(step + ": " + C.GoString(C.ibv_wc_status_str(uint32(status))))
	}
	return nil
}

// listen counts rings, and fails if a ring is missing or comes twice.
func listen(rings uint32) error {
	var listener, id *C.struct_rdma_cm_id
	if status, err := C.create(&listener, nil); status != 0 {
		return fmt.Errorf("rdma_create_ep: %w", err)
	}
	defer C.rdma_destroy_ep(listener)
	if status, err := C.rdma_listen(listener, 1); status != 0 {
		return fmt.Errorf("rdma_listen: %w", err)
	}
	if status, err := C.rdma_get_request(listener, &id); status != 0 {
		return fmt.Errorf("rdma_get_request: %w", err)
	}
	defer C.rdma_destroy_ep(id)
	for i := 0; i < credits; i++ {
		if status := C.expect_ring(id); status != 0 {
			return fmt.Errorf("ibv_post_recv: error %d", status)
		}
	}
	if status, err := C.rdma_accept(id, nil); status != 0 {
		return fmt.Errorf("rdma_accept: %w", err)
	}
	for i := uint32(0); i < rings; i++ {
		var number C.uint32_t
		status, err := C.wait_ring(id, &number)
		if err := completed("receive", status, err); err != nil {
			return err
		}
		if uint32(number) != i {
			return fmt.Errorf("ring %d instead of %d", number, i)
		}
		if status := C.expect_ring(id); status != 0 {
			return fmt.Errorf("ibv_post_recv: error %d", status)
		}
	}
	fmt.Println(rings, "rings heard")
	return nil
}

func ring(rings uint32, server string) error {
	name := C.CString(server)
	defer C.free(unsafe.Pointer(name))
	var id *C.struct_rdma_cm_id
	if status, err := C.create(&id, name); status != 0 {
		return fmt.Errorf("rdma_create_ep: %w", err)
	}
	defer C.rdma_destroy_ep(id)
	if status, err := C.rdma_connect(id, nil); status != 0 {
		return fmt.Errorf("rdma_connect: %w", err)
	}
	for i := uint32(0); i < rings; i++ {
		status, err := C.ring(id, C.uint32_t(i))
		if err := completed("send", status, err); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: bell RINGS [SERVER]")
		os.Exit(2)
	}
	rings, err := strconv.ParseUint(os.Args[1], 10, 32)
	if err == nil && len(os.Args) > 2 {
		err = ring(uint32(rings), os.Args[2])
	} else if err == nil {
		err = listen(uint32(rings))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bell:", err)
		os.Exit(1)
	}
}
