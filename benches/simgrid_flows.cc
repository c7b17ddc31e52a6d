// A job of benches/engine.py in SimGrid: simgrid_flows PORTS FLOWS
//
// PORTS 0: two hosts and a cable. Otherwise PORTS is the port count of the switches of a
// three-level fat tree (SimGrid's own zone, with its D-mod-K routing). FLOWS has a line for each
// flow: from, to, bytes. Links have 4 GB/s (32 Gb/s) each way.
//
// SimGrid models flows: a message is one transfer that gets its share of each link. The cost is the
// new division of shares at each start and end of a transfer. There are no packets, so only the
// time of the whole job is comparable.

#include "peak_memory.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <simgrid/s4u.hpp>
#include <xbt/log.h>

namespace sg4 = simgrid::s4u;

namespace {

constexpr double kBytesPerSecond = 4e9;
constexpr double kCableSeconds = 5e-9;
constexpr double kSwitchSeconds = 105e-9;
// The highest number of a host's messages in flight, as in softband's workloads.
constexpr size_t kWindow = 16;

struct Flow {
  size_t to;
  uint64_t bytes;
};

std::vector<sg4::Host*> g_hosts;

sg4::NetZone* MakeTree(unsigned ports) {
  const unsigned half = ports / 2;
  auto make_host = [](sg4::NetZone* zone, const std::vector<unsigned long>&, unsigned long id) {
    g_hosts.push_back(zone->create_host("h" + std::to_string(id), 1e9)->seal());
    return std::make_pair(g_hosts.back()->get_netpoint(), static_cast<simgrid::kernel::routing::NetPoint*>(nullptr));
  };
  const sg4::FatTreeParams form(3, {half, half, ports}, {1, half, half}, {1, 1, 1});
  return sg4::create_fatTree_zone("tree", nullptr, form, sg4::ClusterCallbacks(make_host), kBytesPerSecond, kSwitchSeconds,
                                  sg4::Link::SharingPolicy::SPLITDUPLEX);
}

sg4::NetZone* MakePair() {
  sg4::NetZone* zone = sg4::create_full_zone("pair");
  for (const char* name : {"a", "b"}) {
    g_hosts.push_back(zone->create_host(name, 1e9)->seal());
  }
  auto* link = zone->create_split_duplex_link("cable", kBytesPerSecond)->set_latency(kCableSeconds)->seal();
  zone->add_route(g_hosts[0]->get_netpoint(), g_hosts[1]->get_netpoint(), nullptr, nullptr, {{link, sg4::LinkInRoute::Direction::UP}}, true);
  return zone;
}

// Sends a host's messages, several at a time.
void Send(const std::vector<Flow>& flows) {
  std::vector<sg4::CommPtr> under_way;
  for (const Flow& flow : flows) {
    if (under_way.size() == kWindow) {
      under_way.erase(under_way.begin() + sg4::Comm::wait_any(under_way));
    }
    under_way.push_back(sg4::Comm::sendto_async(sg4::this_actor::get_host(), g_hosts[flow.to], flow.bytes));
  }
  sg4::Comm::wait_all(under_way);
}

}  // namespace

int main(int argc, char** argv) {
  xbt_log_control_set("xbt_cfg.thres:warning");
  sg4::Engine engine(&argc, argv);
  // TCP takes no share: flows get a link's full rate.
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/TCP-gamma:0");
  sg4::Engine::set_config("network/crosstraffic:0");
  // KiB for each sender. The default of 8 MiB is too much for thousands of senders.
  sg4::Engine::set_config("contexts/stack-size:64");
  if (argc != 3) {
    std::fprintf(stderr, "usage: simgrid_flows PORTS FLOWS\n");
    return 2;
  }
  const unsigned ports = std::atoi(argv[1]);
  (ports == 0 ? MakePair() : MakeTree(ports))->seal();
  std::map<size_t, std::vector<Flow>> by_sender;
  std::ifstream file(argv[2]);
  size_t from = 0;
  for (Flow flow; file >> from >> flow.to >> flow.bytes;) {
    by_sender[from].push_back(flow);
  }
  for (const auto& [sender, flows] : by_sender) {
    sg4::Actor::create("sender", g_hosts.at(sender), [&flows = flows] { Send(flows); });
  }
  engine.run();
  std::printf("simulated_picos %.0f\npeak_kib %ld\n", sg4::Engine::get_clock() * 1e12, PeakKib());
  return 0;
}
