// A job of benches/engine.py in ns-3: ns3_forward PORTS FLOWS
//
// PORTS 0: two hosts and a cable. Otherwise PORTS is the port count of the switches of a
// three-level fat tree. FLOWS has a line for each flow: from, to, bytes. Packets of 2 KiB cross
// point-to-point links of 32 Gb/s (ns-3's PointToPointNetDevice, unlimited queues). Switches store
// packets and forward them by a table in the receive callback of the device. The destination
// decides the way up.
//
// There are no credits, lanes, acknowledgements, HCAs or IP: this is ns-3's least work for a packet
// that crosses a link. Hosts send at link rate.

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "peak_memory.h"
#include "ns3/core-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

constexpr uint32_t kPacketBytes = 2048;
// Packets that a host's queue takes at a time. Then the host waits until they have left.
constexpr uint32_t kBatch = 16;
const char* const kRate = "32Gbps";
// A cable takes five nanoseconds, plus 100 ns if it has a switch at one of its ends.
const char* const kCableDelay = "5ns";
const char* const kSwitchDelay = "105ns";

// The destination of a packet.
class Destination : public Tag {
 public:
  explicit Destination(uint32_t host = 0) : m_host(host) {}
  static TypeId GetTypeId() {
    static TypeId id = TypeId("softband::Destination").SetParent<Tag>().AddConstructor<Destination>();
    return id;
  }
  TypeId GetInstanceTypeId() const override { return GetTypeId(); }
  uint32_t GetSerializedSize() const override { return 4; }
  void Serialize(TagBuffer buffer) const override { buffer.WriteU32(m_host); }
  void Deserialize(TagBuffer buffer) override { m_host = buffer.ReadU32(); }
  void Print(std::ostream& os) const override { os << m_host; }
  uint32_t Host() const { return m_host; }

 private:
  uint32_t m_host;
};

struct Flow {
  uint32_t to;
  uint64_t packets;
};

struct Sender {
  Ptr<Node> node = CreateObject<Node>();
  Ptr<NetDevice> device;
  std::vector<Flow> flows;
  size_t flow = 0;
};

struct Switch {
  Ptr<Node> node = CreateObject<Node>();
  std::vector<Ptr<NetDevice>> ports;
  std::vector<uint16_t> ways;
};

uint64_t g_hops = 0;
uint64_t g_delivered = 0;
std::vector<Sender> g_hosts;
std::vector<Switch> g_switches;

bool AtHost(Ptr<NetDevice>, Ptr<const Packet>, uint16_t, const Address&) {
  ++g_hops;
  ++g_delivered;
  return true;
}

bool AtSwitch(Switch* at, Ptr<NetDevice>, Ptr<const Packet> packet, uint16_t protocol, const Address& from) {
  ++g_hops;
  Destination destination;
  packet->PeekPacketTag(destination);
  at->ports[at->ways[destination.Host()]]->Send(ConstCast<Packet>(packet), from, protocol);
  return true;
}

void SendBatch(Sender* sender, Time batch_time) {
  uint32_t sent = 0;
  while (sent < kBatch && sender->flow < sender->flows.size()) {
    Flow& flow = sender->flows[sender->flow];
    if (flow.packets == 0) {
      ++sender->flow;
      continue;
    }
    Ptr<Packet> packet = Create<Packet>(kPacketBytes);
    packet->AddPacketTag(Destination(flow.to));
    sender->device->Send(packet, Address(), 0x0800);
    --flow.packets;
    ++sent;
  }
  if (sent == kBatch) {
    Simulator::Schedule(batch_time, &SendBatch, sender, batch_time);
  }
}

class Builder {
 public:
  explicit Builder(uint32_t ports) : m_ports(ports), m_half(ports / 2) {
    m_links.SetDeviceAttribute("DataRate", StringValue(kRate));
    m_links.SetDeviceAttribute("Mtu", UintegerValue(kPacketBytes));
    m_links.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("4000000000p"));
    m_links.SetChannelAttribute("Delay", StringValue(ports == 0 ? kCableDelay : kSwitchDelay));
    ports == 0 ? Pair() : Tree();
  }

 private:
  void Pair() {
    g_hosts.resize(2);
    NetDeviceContainer cable = m_links.Install(g_hosts[0].node, g_hosts[1].node);
    Host(0, cable.Get(0));
    Host(1, cable.Get(1));
  }

  void Tree() {
    const uint32_t in_pod = m_half * m_half;
    g_hosts.resize(m_ports * in_pod);
    g_switches.resize(m_ports * m_ports + in_pod);
    for (Switch& each : g_switches) {
      each.ports.resize(m_ports);
    }
    for (uint32_t pod = 0; pod < m_ports; ++pod) {
      for (uint32_t a = 0; a < m_half; ++a) {
        for (uint32_t b = 0; b < m_half; ++b) {
          const uint32_t host = (pod * m_half + a) * m_half + b;
          NetDeviceContainer cable = m_links.Install(g_hosts[host].node, g_switches[Leaf(pod, a)].node);
          Host(host, cable.Get(0));
          Port(Leaf(pod, a), b, cable.Get(1));
          Cable(Leaf(pod, a), m_half + b, Spine(pod, b), a);
          Cable(Spine(pod, a), m_half + b, Core(a * m_half + b), pod);
        }
      }
    }
    for (uint32_t index = 0; index < g_switches.size(); ++index) {
      for (uint32_t host = 0; host < g_hosts.size(); ++host) {
        g_switches[index].ways.push_back(Way(index, host));
      }
    }
  }

  uint32_t Leaf(uint32_t pod, uint32_t number) const { return pod * m_ports + number; }
  uint32_t Spine(uint32_t pod, uint32_t number) const { return pod * m_ports + m_half + number; }
  uint32_t Core(uint32_t number) const { return m_ports * m_ports + number; }

  uint16_t Way(uint32_t index, uint32_t host) const {
    const uint32_t pod = host / (m_half * m_half), place = host % (m_half * m_half);
    if (index >= Core(0)) {
      return pod;
    }
    const uint32_t own_pod = index / m_ports, number = index % m_ports;
    if (number < m_half) {
      const bool is_here = pod == own_pod && place / m_half == number;
      return is_here ? place % m_half : m_half + place % m_half;
    }
    return pod == own_pod ? place / m_half : m_half + place / m_half;
  }

  void Cable(uint32_t below, uint32_t below_port, uint32_t above, uint32_t above_port) {
    NetDeviceContainer cable = m_links.Install(g_switches[below].node, g_switches[above].node);
    Port(below, below_port, cable.Get(0));
    Port(above, above_port, cable.Get(1));
  }
  void Host(uint32_t host, Ptr<NetDevice> device) {
    device->SetReceiveCallback(MakeCallback(&AtHost));
    g_hosts[host].device = device;
  }
  void Port(uint32_t index, uint32_t port, Ptr<NetDevice> device) {
    device->SetReceiveCallback(MakeBoundCallback(&AtSwitch, &g_switches[index]));
    g_switches[index].ports[port] = device;
  }

  uint32_t m_ports;
  uint32_t m_half;
  PointToPointHelper m_links;
};

uint64_t ReadFlows(const char* path) {
  std::ifstream file(path);
  uint32_t from = 0, to = 0;
  uint64_t bytes = 0, packets = 0;
  while (file >> from >> to >> bytes) {
    const uint64_t count = (bytes + kPacketBytes - 1) / kPacketBytes;
    g_hosts.at(from).flows.push_back({to, count});
    packets += count;
  }
  return packets;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: ns3_forward PORTS FLOWS\n");
    return 2;
  }
  Time::SetResolution(Time::PS);
  // The fastest of ns-3's schedulers for these jobs.
  Simulator::SetScheduler(ObjectFactory("ns3::PriorityQueueScheduler"));
  Builder builder(std::atoi(argv[1]));
  const uint64_t packets = ReadFlows(argv[2]);
  // The link adds two bytes.
  const Time batch_time = DataRate(kRate).CalculateBytesTxTime(kBatch * (kPacketBytes + 2));
  for (Sender& sender : g_hosts) {
    Simulator::ScheduleNow(&SendBatch, &sender, batch_time);
  }
  Simulator::Run();
  if (g_delivered != packets) {
    std::fprintf(stderr, "of %lu packets %lu have arrived\n", packets, g_delivered);
    return 1;
  }
  std::printf("packet_hops %lu\nsimulated_picos %ld\npeak_kib %ld\n", g_hops, Simulator::Now().GetPicoSeconds(), PeakKib());
  return 0;
}
