// A job of benches/sockets.py in ns-3: ns3_tcp CONNECTIONS BYTES
//
// Two hosts on a point-to-point link of the rate, delay and MTU of fabrics/ipoib.toml move BYTES over
// each connection (BulkSend to PacketSink). TCP is ns-3's: CUBIC, selective acknowledgements,
// window scaling. There are no kernel costs, rings, HCAs or programs.
//
// It prints the wall seconds of the run and the bytes that arrived.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "ns3/applications-module.h"
#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"

using namespace ns3;

namespace {

constexpr uint16_t kPort = 5001;
constexpr uint32_t kMtuBytes = 2044;
constexpr uint32_t kSegmentBytes = 1992;
constexpr uint32_t kBufferBytes = 4 << 20;

}  // namespace

int main(int count, char** words) {
  if (count < 3) return 2;
  const uint32_t connections = std::strtoul(words[1], nullptr, 0);
  const uint64_t bytes = std::strtoull(words[2], nullptr, 0);
  Config::SetDefault("ns3::TcpSocket::SegmentSize", UintegerValue(kSegmentBytes));
  Config::SetDefault("ns3::TcpSocket::SndBufSize", UintegerValue(kBufferBytes));
  Config::SetDefault("ns3::TcpSocket::RcvBufSize", UintegerValue(kBufferBytes));
  Config::SetDefault("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
  Config::SetDefault("ns3::TcpL4Protocol::SocketType", StringValue("ns3::TcpCubic"));

  NodeContainer hosts(2);
  PointToPointHelper link;
  link.SetDeviceAttribute("DataRate", StringValue("16Gbps"));
  link.SetDeviceAttribute("Mtu", UintegerValue(kMtuBytes));
  link.SetChannelAttribute("Delay", StringValue("2us"));
  link.SetQueue("ns3::DropTailQueue<Packet>", "MaxSize", StringValue("1000p"));
  NetDeviceContainer devices = link.Install(hosts);
  InternetStackHelper().Install(hosts);
  Ipv4AddressHelper addresses("10.1.0.0", "255.255.0.0");
  Ipv4InterfaceContainer interfaces = addresses.Assign(devices);

  PacketSinkHelper sink("ns3::TcpSocketFactory", InetSocketAddress(Ipv4Address::GetAny(), kPort));
  ApplicationContainer server = sink.Install(hosts.Get(1));
  BulkSendHelper source("ns3::TcpSocketFactory", InetSocketAddress(interfaces.GetAddress(1), kPort));
  source.SetAttribute("MaxBytes", UintegerValue(bytes));
  source.SetAttribute("SendSize", UintegerValue(65536));
  for (uint32_t i = 0; i < connections; i++) source.Install(hosts.Get(0));

  const auto begin = std::chrono::steady_clock::now();
  Simulator::Stop(Seconds(1000));
  Simulator::Run();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - begin;
  const uint64_t received = DynamicCast<PacketSink>(server.Get(0))->GetTotalRx();
  std::printf("%.6f %llu\n", wall.count(), static_cast<unsigned long long>(received));
  Simulator::Destroy();
  return received == bytes * connections ? 0 : 1;
}
