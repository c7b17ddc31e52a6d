/* The server exchanges addresses, posts receives, then kills itself in mid-transfer.
 * The client sends until a completion carries an error, prints it, and exits 0 if the error is
 * "retry exceeded". Both keep their queues full, because the host may let the server live on for a
 * while. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PORT "18700"
#define SIZE (1 << 20)
#define DEPTH 16

struct end { uint32_t lid, qpn, psn; };

static void fail(const char *what) { perror(what); exit(1); }

static int meet(const char *server) {
    struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM, .ai_flags = server ? 0 : AI_PASSIVE }, *found;
    if (getaddrinfo(server, PORT, &hints, &found)) fail("getaddrinfo");
    int fd = socket(found->ai_family, found->ai_socktype, 0);
    if (server) {
        if (connect(fd, found->ai_addr, found->ai_addrlen)) fail("connect");
        return fd;
    }
    int on = 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 1)) fail("bind");
    return accept(fd, NULL, NULL);
}

static void post(struct ibv_qp *qp, struct ibv_sge *sge, int sends) {
    struct ibv_send_wr send = { .sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED }, *bad_send;
    struct ibv_recv_wr receive = { .sg_list = sge, .num_sge = 1 }, *bad_receive;
    if (sends ? ibv_post_send(qp, &send, &bad_send) : ibv_post_recv(qp, &receive, &bad_receive)) fail("post");
}

int main(int count, char **words) {
    const char *server = count > 1 ? words[1] : NULL;
    int devices;
    struct ibv_device **list = ibv_get_device_list(&devices);
    if (!list || devices < 1) fail("no device");
    struct ibv_context *context = ibv_open_device(list[0]);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    struct ibv_cq *cq = ibv_create_cq(context, 64, NULL, NULL, 0);
    char *buffer = calloc(1, SIZE);
    struct ibv_mr *mr = ibv_reg_mr(pd, buffer, SIZE, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp_init_attr init = { .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
        .cap = { .max_send_wr = 32, .max_recv_wr = 32, .max_send_sge = 1, .max_recv_sge = 1 } };
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    if (!context || !pd || !cq || !mr || !qp) fail("setup");
    struct ibv_port_attr port;
    ibv_query_port(context, 1, &port);
    struct end mine = { port.lid, qp->qp_num, 7 }, peer;
    int fd = meet(server);
    if (write(fd, &mine, sizeof mine) != sizeof mine || read(fd, &peer, sizeof peer) != sizeof peer) fail("exchange");
    struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)) fail("INIT");
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .dest_qp_num = peer.qpn, .rq_psn = peer.psn,
        .max_dest_rd_atomic = 1, .min_rnr_timer = 12, .ah_attr = { .dlid = peer.lid, .port_num = 1 } };
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)) fail("RTR");
    attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .sq_psn = mine.psn, .max_rd_atomic = 1 };
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                                     IBV_QP_MAX_QP_RD_ATOMIC)) fail("RTS");
    struct ibv_sge sge = { (uintptr_t)buffer, SIZE, mr->lkey };
    struct ibv_wc wc;
    for (int round = 0; round < DEPTH; round++) post(qp, &sge, server != NULL);
    for (int done = 0;; done++) {
        while (ibv_poll_cq(cq, 1, &wc) == 0) {}
        if (!server && done == 2) kill(getpid(), SIGKILL);
        if (wc.status != IBV_WC_SUCCESS) {
            printf("completion %d: %s\n", done, ibv_wc_status_str(wc.status));
            if (wc.status == IBV_WC_RETRY_EXC_ERR) puts("retry exceeded");
            return wc.status == IBV_WC_RETRY_EXC_ERR ? 0 : 1;
        }
        post(qp, &sge, server != NULL);
    }
}
