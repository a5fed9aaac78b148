// SPDX-License-Identifier: Apache-2.0
// The network model: latency and bandwidth (Hockney 1994, "The communication challenge for MPP") on two levels, within nodes
// and across them, fitted to the measurements of `shoal bench comm`.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace shoal::plan {

/// One measurement: bytes that a rank sent, and seconds that this took.
struct Sample {
  double bytes = 0, seconds = 0;
};

/// seconds = latency_s + s_per_byte * bytes.
struct Line {
  double latency_s = 0, s_per_byte = 0;
  double at(double bytes) const { return latency_s + s_per_byte * bytes; }
};

/// Fits a line to measurements; none if there are fewer than two sizes. The slope is the least-squares one of deviations in
/// seconds, so large messages decide: messages of middle size can be too fast for any line, since a switch or a shaper takes
/// them into its buffer at once, whatever the rate of the link. The latency is the time of the smallest message minus the
/// slope times its bytes. Neither is negative.
std::optional<Line> fit(const std::vector<Sample>& samples);
/// Returns the largest |line - measured| / measured.
double worst_deviation(const Line& line, const std::vector<Sample>& samples);

/// One level of the network, as a rank sees it while all ranks of its node use it at the same time.
struct Link {
  double latency_s = 0;   ///< per exchange with a partner
  double s_per_byte = 0;  ///< per byte that a rank sends
  /// Between nodes: bytes that a node's link takes at once if it was not used for as long as it takes to send them, as the
  /// bucket of a traffic shaper does (RFC 2697). They are the same at another rate.
  double credit_bytes = 0;
};

/// Seconds per element of quantization (kernels/quantize.hpp) on a rank, measured while all ranks work.
struct Codec {
  double quantize_s = 0;  ///< including the measurement of its error, which training makes too
  double dequantize_s = 0;
};

struct NetworkModel {
  int ranks_per_node = 1;            ///< ranks that used the node's link to others while it was measured
  std::optional<Link> node, across;  ///< none: not measured
  bool queued = false;               ///< measured with comm.backend = nccl, whose trees have fewer exchanges
  bool gathers_apart = false;        ///< queued: gathers do not follow other operations (comm.gather_group)
  double sum_s_per_byte = 0;         ///< for adding received fp32 numbers to the rank's own
  Codec int8, int4;
  const Codec& codec(int bits) const { return bits == 8 ? int8 : int4; }
};

/// Returns the model with links of another rate between nodes, in bit/s in each direction. Only useful_share of a link's
/// bytes are payload; the rest are TCP, IP and Ethernet headers of frames of 1500 bytes.
inline constexpr double useful_share = 1448.0 / 1514.0;
NetworkModel with_link_rate(const NetworkModel& model, double bits_per_s);

/// How many nodes a run has, and how many ranks on each.
struct Cluster {
  int nodes = 1, ranks_per_node = 1;
  int ranks() const { return nodes * ranks_per_node; }
};

/// Returns an error text if the model lacks measurements for such a cluster; otherwise an empty text.
const char* missing_measurement(const NetworkModel& model, const Cluster& cluster);

}  // namespace shoal::plan
