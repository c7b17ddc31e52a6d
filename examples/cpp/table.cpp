// A client reads the server's table by RDMA, row by row. The server's processor has no part in it.
#include <array>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>

namespace {

constexpr const char *port = "7472";
constexpr std::size_t row_length = 256;
using Row = std::array<std::uint32_t, row_length>;

// Address and key of the table, which the server sends as it accepts.
struct Offer {
    std::uint64_t address;
    std::uint32_t key;
    std::uint32_t rows;
};

void check(bool fine, const std::string &step) {
    if (!fine)
        throw std::runtime_error(step + ": " + std::strerror(errno));
}

void check(const ibv_wc &completion, const std::string &step) {
    if (completion.status != IBV_WC_SUCCESS)
        throw std::runtime_error(step + ": " + ibv_wc_status_str(completion.status));
}

struct EndpointEnd {
    void operator()(rdma_cm_id *id) const { rdma_destroy_ep(id); }
};
struct RegionEnd {
    void operator()(ibv_mr *region) const { rdma_dereg_mr(region); }
};
using Endpoint = std::unique_ptr<rdma_cm_id, EndpointEnd>;
using Region = std::unique_ptr<ibv_mr, RegionEnd>;

Endpoint endpoint(const char *server) {
    rdma_addrinfo hints{}, *address = nullptr;
    hints.ai_port_space = RDMA_PS_TCP;
    hints.ai_flags = server ? 0 : RAI_PASSIVE;
    check(rdma_getaddrinfo(server, port, &hints, &address) == 0, "rdma_getaddrinfo");
    ibv_qp_init_attr wanted{};
    wanted.cap = {1, 1, 1, 1, 0};
    wanted.sq_sig_all = 1;
    rdma_cm_id *id = nullptr;
    const int status = rdma_create_ep(&id, address, nullptr, &wanted);
    rdma_freeaddrinfo(address);
    check(status == 0, "rdma_create_ep");
    return Endpoint(id);
}

void serve(std::uint32_t rows) {
    std::vector<Row> table(rows);
    for (std::uint32_t row = 0; row < rows; row++)
        std::iota(table[row].begin(), table[row].end(), row);
    const Endpoint listener = endpoint(nullptr);
    check(rdma_listen(listener.get(), 1) == 0, "rdma_listen");
    rdma_cm_id *accepted = nullptr;
    check(rdma_get_request(listener.get(), &accepted) == 0, "rdma_get_request");
    const Endpoint client(accepted);
    const Region region(rdma_reg_read(client.get(), table.data(), table.size() * sizeof(Row)));
    check(region != nullptr, "rdma_reg_read");
    std::uint32_t done = 0;
    const Region word(rdma_reg_msgs(client.get(), &done, sizeof done));
    check(word && rdma_post_recv(client.get(), nullptr, &done, sizeof done, word.get()) == 0, "rdma_post_recv");
    const Offer offer{reinterpret_cast<std::uint64_t>(table.data()), region->rkey, rows};
    rdma_conn_param answer{};
    answer.private_data = &offer;
    answer.private_data_len = sizeof offer;
    answer.responder_resources = 1;
    check(rdma_accept(client.get(), &answer) == 0, "rdma_accept");
    ibv_wc completion{};
    check(rdma_get_recv_comp(client.get(), &completion) >= 0, "rdma_get_recv_comp");
    check(completion, "last word of the client");
}

void read(const char *server) {
    const Endpoint id = endpoint(server);
    rdma_conn_param wanted{};
    wanted.initiator_depth = 1;
    wanted.retry_count = 7;
    check(rdma_connect(id.get(), &wanted) == 0, "rdma_connect");
    Offer offer;
    std::memcpy(&offer, id->event->param.conn.private_data, sizeof offer);
    Row row{};
    const Region region(rdma_reg_msgs(id.get(), row.data(), sizeof row));
    check(region != nullptr, "rdma_reg_msgs");
    for (std::uint32_t number = 0; number < offer.rows; number++) {
        const auto address = offer.address + number * sizeof row;
        check(rdma_post_read(id.get(), nullptr, row.data(), sizeof row, region.get(), 0, address, offer.key) == 0, "rdma_post_read");
        ibv_wc completion{};
        check(rdma_get_send_comp(id.get(), &completion) >= 0, "rdma_get_send_comp");
        check(completion, "row " + std::to_string(number));
        if (row.front() != number || row.back() != number + row_length - 1)
            throw std::runtime_error("row " + std::to_string(number) + " has wrong values");
    }
    check(rdma_post_send(id.get(), nullptr, row.data(), sizeof offer.rows, region.get(), 0) == 0, "rdma_post_send");
    ibv_wc completion{};
    check(rdma_get_send_comp(id.get(), &completion) >= 0, "rdma_get_send_comp");
    check(completion, "last word");
    std::cout << offer.rows << " rows read\n";
}

} // namespace

int main(int argc, char **argv) try {
    if (argc == 3 && std::string(argv[1]) == "read")
        read(argv[2]);
    else if (argc == 3 && std::string(argv[1]) == "serve")
        serve(static_cast<std::uint32_t>(std::stoul(argv[2])));
    else
        throw std::invalid_argument("usage: table serve ROWS | table read SERVER");
    return 0;
} catch (const std::exception &error) {
    std::cerr << "table: " << error.what() << '\n';
    return 1;
}
