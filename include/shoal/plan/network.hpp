// SPDX-License-Identifier: Apache-2.0
// What communication costs: a latency-bandwidth model (Hockney 1994, "The communication challenge for MPP") of two levels,
// within nodes and across them, fitted to what `shoal bench comm` measured.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace shoal::plan {

/// One measured size: bytes that a rank sent, and the seconds that it took.
struct Sample {
  double bytes = 0, seconds = 0;
};

/// seconds = latency_s + s_per_byte * bytes.
struct Line {
  double latency_s = 0, s_per_byte = 0;
  double at(double bytes) const { return latency_s + s_per_byte * bytes; }
};

/// The slope by least squares of deviations in seconds, so by the large messages: what comes into a switch's or a shaper's
/// buffer at once tells nothing of the link's rate, and makes the middle sizes too fast for any line. The latency is what
/// the smallest message took besides. Neither is negative. Of fewer than two sizes: none.
std::optional<Line> fit(const std::vector<Sample>& samples);
/// The largest |line - measured| / measured.
double worst_deviation(const Line& line, const std::vector<Sample>& samples);

/// A level of the network, as a rank sees it while all ranks of its node use it as well.
struct Link {
  double latency_s = 0;   ///< of an exchange with a partner
  double s_per_byte = 0;  ///< that a rank sends
};

/// Of quantization (kernels/quantize.hpp), on a rank while all of them work: seconds an element.
struct Codec {
  double quantize_s = 0;  ///< with the measure of its error, as training has it
  double dequantize_s = 0;
};

struct NetworkModel {
  int ranks_per_node = 1;            ///< that shared the link across while it was measured
  std::optional<Link> node, across;  ///< none: not measured
  double sum_s_per_byte = 0;         ///< of adding what was received to what is there, fp32
  Codec int8, int4;
  const Codec& codec(int bits) const { return bits == 8 ? int8 : int4; }
};

/// The model with a link of another rate between nodes, bit/s in each direction. Of such a link, `useful` of the bytes are
/// payload: the rest are the heads of TCP, IP and Ethernet in frames of 1500 bytes.
inline constexpr double useful_share = 1448.0 / 1514.0;
NetworkModel with_link_rate(const NetworkModel& model, double bits_per_s);

/// Where the ranks of a run are.
struct Cluster {
  int nodes = 1, ranks_per_node = 1;
  int ranks() const { return nodes * ranks_per_node; }
};

/// Why the model cannot tell what that cluster's communication costs; empty if it can.
const char* lacking(const NetworkModel& model, const Cluster& cluster);

}  // namespace shoal::plan
