// SPDX-License-Identifier: Apache-2.0
#include "shoal/plan/platform.hpp"

#include <algorithm>
#include <iomanip>
#include <sstream>

namespace shoal::plan {

namespace {

/// SimGrid's arguments of a <cluster>, how many nodes it then has, and how many links a longest path has.
struct Shape {
  std::string topology;
  int nodes = 1, longest_path = 2;
};

int divided_up(int nodes, int each) { return (nodes + each - 1) / each; }

Shape shape_of(Platform platform, int nodes) {
  std::ostringstream text;
  if (platform == Platform::two_level) return {"", nodes, 2};
  if (platform == Platform::fat_tree) {
    const int each = std::min(nodes, 16), switches = divided_up(nodes, each);
    text << R"( topology="FAT_TREE" topo_parameters="2;)" << each << ',' << switches << ";1," << each << R"(;1,1")";
    return {text.str(), each * switches, 4};
  }
  constexpr int each = 4;
  // SimGrid links group i to group j at router j of group i: there must be a router for each group.
  int routers = 1;
  while (routers * routers * each < nodes) ++routers;
  const int groups = divided_up(nodes, routers * each);
  text << R"( topology="DRAGONFLY" topo_parameters=")" << groups << ",1;1,1;" << routers << ",1;" << each << '"';
  // From a node to its router, to another router of the group, to another group, to its router, and to the node there.
  return {text.str(), groups * routers * each, 5};
}

}  // namespace

std::string platform_file(Platform platform, const Cluster& cluster, const NetworkModel& network) {
  const Shape shape = shape_of(platform, cluster.nodes);
  // A link that was not measured is not used.
  const Link node = network.node.value_or(Link{}), across = network.across.value_or(Link{});
  constexpr double unlimited = 1e15;  // bytes/s
  const auto rate = [](double s_per_byte, int ranks) { return s_per_byte > 0 ? ranks / s_per_byte : unlimited; };
  std::ostringstream xml;
  xml << std::setprecision(9);
  xml << "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n<platform "
         "version=\"4.1\">\n"
      << "  <!-- " << name_of(platform) << ": " << cluster.nodes << " nodes x " << cluster.ranks_per_node << " ranks -->\n"
      << R"(  <cluster id="cluster" prefix="node" suffix="" radical="0-)" << shape.nodes - 1 << R"(" speed="1Gf" core=")"
      << cluster.ranks_per_node << R"(" bw=")" << rate(across.s_per_byte, network.ranks_per_node) << R"(Bps" lat=")"
      << across.latency_s / shape.longest_path << R"(s" sharing_policy="SPLITDUPLEX" loopback_bw=")"
      << rate(node.s_per_byte, 1) << R"(Bps" loopback_lat=")" << node.latency_s << "s\"" << shape.topology << "/>\n"
      << "</platform>\n";
  return xml.str();
}

std::string host_file(const Cluster& cluster, int processes_per_rank) {
  std::string hosts;
  for (int process = 0; process < cluster.ranks() * processes_per_rank; ++process) {
    hosts += "node" + std::to_string(process / (cluster.ranks_per_node * processes_per_rank)) + "\n";
  }
  return hosts;
}

/// SMPI adds 16 bytes to every message. So those of up to 17 bytes are signals (replay_trace.hpp).
std::vector<std::string> simulator_settings() {
  return {"--cfg=smpi/bw-factor:0:1",     "--cfg=smpi/lat-factor:0:0;17:1", "--cfg=network/crosstraffic:0",
          "--cfg=network/TCP-gamma:1e18", "--cfg=smpi/host-speed:1Gf",      "--cfg=contexts/stack-size:256"};
}

}  // namespace shoal::plan
