/* SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls every verb, attribute and flag that Softband does not have, each twice. Each answers as the
 * manual page states, and the library reports each missing feature once.
 *
 *     refusals
 */
#include "verbs_common.h"

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static uint8_t memory[4096];

static struct ibv_qp *queue_pair(enum ibv_qp_type type, uint64_t operations)
{
	struct ibv_qp_init_attr_ex init = {.qp_type = type, .send_cq = cq, .recv_cq = cq, .pd = pd, .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

	if (operations) {
		init.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
		init.send_ops_flags = operations;
	}
	return ibv_create_qp_ex(context, &init);
}

static void counters_and_flows(void)
{
	struct ibv_counters_init_attr counters_init = {0};
	struct ibv_counters counters = {.context = context};
	struct ibv_flow_attr flow_init = {.port = 1};
	struct ibv_flow flow = {.context = context};
	struct ibv_flow_action_esp_attr esp = {0};
	struct ibv_flow_action action = {.context = context};
	struct ibv_qp *qp = queue_pair(IBV_QPT_UD, 0);
	uint64_t values[1];

	CHECK(qp != NULL);
	NONE(EOPNOTSUPP, ibv_create_counters(context, &counters_init));
	IS(EOPNOTSUPP, ibv_destroy_counters(&counters));
	IS(EOPNOTSUPP, ibv_attach_counters_point_flow(&counters, NULL, &flow));
	IS(EOPNOTSUPP, ibv_read_counters(&counters, values, 1, 0));
	NONE(EOPNOTSUPP, ibv_create_flow(qp, &flow_init));
	IS(EOPNOTSUPP, ibv_destroy_flow(&flow));
	NONE(EOPNOTSUPP, ibv_create_flow_action_esp(context, &esp));
	IS(EOPNOTSUPP, ibv_modify_flow_action_esp(&action, &esp));
	IS(EOPNOTSUPP, ibv_destroy_flow_action(&action));
	IS(0, ibv_destroy_qp(qp));
}

static void device_memory(void)
{
	struct ibv_alloc_dm_attr init = {.length = 64};
	struct ibv_dm dm = {.context = context};

	NONE(EOPNOTSUPP, ibv_alloc_dm(context, &init));
	IS(EOPNOTSUPP, ibv_free_dm(&dm));
	NONE(EOPNOTSUPP, ibv_reg_dm_mr(pd, &dm, 0, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
	NONE(EOPNOTSUPP, ibv_import_dm(context, 1));
	ibv_unimport_dm(&dm);
	NONE(EOPNOTSUPP, ibv_alloc_null_mr(pd));
	NONE(EOPNOTSUPP, ibv_reg_dmabuf_mr(pd, 0, 64, 0, 0, IBV_ACCESS_LOCAL_WRITE));
}

static void objects_of_others(void)
{
	struct ibv_mr mr = {.context = context};

	NONE(EOPNOTSUPP, ibv_import_device(0));
	NONE(EOPNOTSUPP, ibv_import_pd(context, 1));
	ibv_unimport_pd(pd);
	NONE(EOPNOTSUPP, ibv_import_mr(pd, 1));
	ibv_unimport_mr(&mr);
}

static void work_queues(void)
{
	struct ibv_wq_init_attr wq_init = {.wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1, .pd = pd, .cq = cq};
	struct ibv_wq wq = {.context = context};
	struct ibv_wq_attr wq_attr = {0};
	struct ibv_rwq_ind_table_init_attr table_init = {0};
	struct ibv_rwq_ind_table table = {.context = context};

	NONE(EOPNOTSUPP, ibv_create_wq(context, &wq_init));
	IS(EOPNOTSUPP, ibv_modify_wq(&wq, &wq_attr));
	IS(EOPNOTSUPP, ibv_destroy_wq(&wq));
	NONE(EOPNOTSUPP, ibv_create_rwq_ind_table(context, &table_init));
	IS(EOPNOTSUPP, ibv_destroy_rwq_ind_table(&table));
}

static void completion_queues(void)
{
	struct ibv_modify_cq_attr moderation = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {8, 8}};
	struct ibv_cq_init_attr_ex init = {.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};

	IS(EOPNOTSUPP, ibv_modify_cq(cq, &moderation));
	NONE(EOPNOTSUPP, ibv_create_cq_ex(context, &init));
	init.comp_mask = 0;
	init.wc_flags = IBV_WC_EX_WITH_CVLAN;
	NONE(EOPNOTSUPP, ibv_create_cq_ex(context, &init));
}

static void creation_of_queue_pairs(void)
{
	struct ibv_qp_init_attr plain = {.qp_type = IBV_QPT_RAW_PACKET, .send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}};
	struct ibv_qp_init_attr_ex init = {.qp_type = IBV_QPT_RC, .send_cq = cq, .recv_cq = cq, .pd = pd, .cap = {4, 4, 1, 1, 0}};
	struct ibv_srq_init_attr_ex tags = {.attr = {.max_wr = 4, .max_sge = 1}, .srq_type = IBV_SRQT_TM, .pd = pd, .cq = cq,
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ};

	NONE(EOPNOTSUPP, ibv_create_qp(pd, &plain));
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	NONE(EOPNOTSUPP, ibv_create_qp_ex(context, &init));
	init.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS;
	init.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	NONE(EOPNOTSUPP, ibv_create_qp_ex(context, &init));
	NONE(EOPNOTSUPP, queue_pair(IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
	NONE(EOPNOTSUPP, ibv_create_srq_ex(context, &tags));
}

static void changes_of_queue_pairs(void)
{
	struct ibv_qp *qp = queue_pair(IBV_QPT_RC, IBV_QP_EX_WITH_SEND);
	struct ibv_qp_ex *extended = ibv_qp_to_qp_ex(qp);
	struct ibv_qp_attr attr = {.cap = {8, 8, 1, 1, 0}, .rate_limit = 1000, .path_mig_state = IBV_MIG_REARM};
	struct ibv_qp_rate_limit_attr rate = {.rate_limit = 1000};
	char header[64];

	CHECK(qp && extended);
	IS(EOPNOTSUPP, ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH));
	IS(EOPNOTSUPP, ibv_modify_qp(qp, &attr, IBV_QP_CAP));
	IS(EOPNOTSUPP, ibv_modify_qp(qp, &attr, IBV_QP_RATE_LIMIT));
	IS(EOPNOTSUPP, ibv_modify_qp_rate_limit(qp, &rate));
	ibv_wr_start(extended);
	extended->wr_flags = 0;
	ibv_wr_send_tso(extended, header, sizeof header, 64);
	IS(EOPNOTSUPP, ibv_wr_complete(extended));
	IS(0, ibv_destroy_qp(qp));
}

/* Connection options: an HCA reports that it has none, and accepts none. */
static void connection_options(void)
{
	struct ibv_qp *qp = queue_pair(IBV_QPT_RC, 0);
	struct ibv_ece ece = {.vendor_id = ~0u, .options = ~0u, .comp_mask = ~0u}, of_another = {.vendor_id = 1};
	struct ibv_device_attr device;

	CHECK(qp != NULL);
	IS(0, ibv_query_device(context, &device));
	IS(0, ibv_query_ece(qp, &ece));
	CHECK(ece.vendor_id == device.vendor_id && !ece.options && !ece.comp_mask);
	IS(0, ibv_set_ece(qp, &ece));
	IS(0, ibv_set_ece(qp, &of_another));
	ece.options = 1;
	IS(EINVAL, ibv_set_ece(qp, &ece));
	ece = (struct ibv_ece){.vendor_id = device.vendor_id, .comp_mask = 1};
	IS(EINVAL, ibv_set_ece(qp, &ece));
	IS(EINVAL, ibv_set_ece(qp, NULL));
	IS(EINVAL, ibv_query_ece(NULL, &ece));
	IS(0, ibv_destroy_qp(qp));
}

static void posts(void)
{
	struct ibv_qp *qp = queue_pair(IBV_QPT_RC, 0);
	struct ibv_send_wr tso = {.opcode = IBV_WR_TSO}, *bad;
	struct address to = {.qpn = qp->qp_num, .psn = 0};
	struct ibv_port_attr port;

	IS(0, ibv_query_port(context, 1, &port));
	to.lid = port.lid;
	to_init(qp);
	to_ready(NULL, qp, &to, &to);
	IS(EOPNOTSUPP, ibv_post_send(qp, &tso, &bad));
	IS(0, ibv_destroy_qp(qp));
}

static void queries(void)
{
	struct ibv_gid_entry entries[4];
	struct ibv_ah_attr ah = {.port_num = 1};
	uint8_t mac[6];
	uint16_t vlan;

	IS(EOPNOTSUPP, ibv_query_gid_ex(context, 1, 0, entries, 1));
	IS(-EOPNOTSUPP, (int)ibv_query_gid_table(context, entries, 4, 1));
	IS(-1, ibv_resolve_eth_l2_from_gid(context, &ah, mac, &vlan));
	CHECK(errno == EOPNOTSUPP);
}

/* Features that only some HCAs have. */
static void optional(void)
{
	struct ibv_xrcd_init_attr domain = {.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_sge sge = {.addr = (uintptr_t)memory, .length = sizeof memory};
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_qp *qp = queue_pair(IBV_QPT_UD, 0);
	union ibv_gid group = {.raw = {0xFF, 0x12, 0x40, 0x1B, 0xFF, 0xFF, [15] = 9}};
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_mw *mw;
	struct ibv_mr *other;
	int attached;

	CHECK(mr && qp);
	to_init(qp);
	CHECK((xrcd = ibv_open_xrcd(context, &domain)) != NULL || errno == EOPNOTSUPP);
	CHECK((srq = ibv_create_srq(pd, &shared)) != NULL || errno == EOPNOTSUPP);
	CHECK((mw = ibv_alloc_mw(pd, IBV_MW_TYPE_1)) != NULL || errno == EOPNOTSUPP);
	CHECK((other = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_ON_DEMAND)) != NULL || errno == EOPNOTSUPP);
	if (other)
		IS(0, ibv_dereg_mr(other));
	CHECK((other = ibv_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_MW_BIND)) != NULL || errno == EOPNOTSUPP);
	if (other)
		IS(0, ibv_dereg_mr(other));
	sge.lkey = mr->lkey;
	attached = ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1);
	CHECK(attached == 0 || attached == EOPNOTSUPP);
	attached = ibv_attach_mcast(qp, &group, 0xC009);
	CHECK(attached == 0 || attached == EOPNOTSUPP);
	if (attached == 0)
		IS(0, ibv_detach_mcast(qp, &group, 0xC009));
	if (xrcd)
		IS(0, ibv_close_xrcd(xrcd));
	if (srq) {
		struct ibv_ops_wr tag = {0}, *bad;

		IS(EOPNOTSUPP, ibv_post_srq_ops(srq, &tag, &bad));
		IS(0, ibv_destroy_srq(srq));
	}
	if (mw)
		IS(0, ibv_dealloc_mw(mw));
	IS(0, ibv_destroy_qp(qp));
	IS(0, ibv_dereg_mr(mr));
}

/* Functions that only old programs call. Today's header does not declare them. */
static void obsolete(void)
{
	void *(**entries)(void) = (void *(**)(void))&context->ops;
	struct ibv_context_ops *ops = &context->ops;
	void *used[] = {ops->_compat_query_device, ops->_compat_query_port, ops->alloc_mw, ops->bind_mw, ops->dealloc_mw, ops->poll_cq,
			ops->req_notify_cq, ops->post_srq_recv, ops->post_send, ops->post_recv};

	for (size_t i = 0; i < sizeof *ops / sizeof *entries; i++) {
		int is_used = 0;

		for (size_t j = 0; j < sizeof used / sizeof *used; j++)
			is_used |= used[j] == (void *)entries[i];
		if (!is_used)
			NONE(EOPNOTSUPP, entries[i]());
	}
}

int main(void)
{
	struct ibv_device **devices = ibv_get_device_list(NULL);

	CHECK(devices && devices[0] && (context = ibv_open_device(devices[0])) != NULL);
	CHECK((pd = ibv_alloc_pd(context)) != NULL && (cq = ibv_create_cq(context, 16, NULL, NULL, 0)) != NULL);
	for (int round = 0; round < 2; round++) {
		counters_and_flows();
		device_memory();
		objects_of_others();
		work_queues();
		completion_queues();
		creation_of_queue_pairs();
		changes_of_queue_pairs();
		connection_options();
		posts();
		queries();
		optional();
		obsolete();
	}
	puts("all parts hold");
	return 0;
}
