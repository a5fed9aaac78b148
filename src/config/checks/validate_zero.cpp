// SPDX-License-Identifier: Apache-2.0
// Contradictions between options of ZeRO++, and options that cannot be combined with them.
#include "config/checks/validate.hpp"
#include "shoal/base/error.hpp"
#include "shoal/zero/quantization.hpp"

namespace shoal::config {

namespace {

/// "zero.qwz = 8".
std::string asked(const zero::ZeroOptions& zero) {
  return zero.qwz != 0 ? text("zero.qwz = ", zero.qwz) : text("zero.qgz = ", zero.qgz);
}

std::vector<std::string> format_problems(const zero::ZeroOptions& zero) {
  std::vector<std::string> problems;
  const auto check = [&](const kernels::QuantFormat& format) {
    const std::string problem = kernels::problem_of(format);
    const bool new_one = problems.empty();  // one message for several formats with the same block
    if (!problem.empty() && new_one) problems.push_back(text("zero.quant_block = ", zero.quant_block, ": ", problem));
  };
  if (const auto weights = zero::gather_format(zero)) check(*weights);
  if (const auto gradients = zero::quantized_reduction(zero, 1)) {
    check(gradients->formats.node);
    check(gradients->formats.across);
  }
  return problems;
}

}  // namespace

std::vector<std::string> zero_problems(const Options& o, int ranks) {
  const zero::ZeroOptions& zero = o.zero;
  std::vector<std::string> problems = format_problems(zero);
  if (const int count = data_ranks(o, ranks); !zero::hpz_divides(zero.hpz_size, count)) {
    problems.push_back(text("zero.hpz_size = ", zero.hpz_size, " does not divide the number of ",
                            count == ranks ? "" : "data-parallel ", "ranks (", count,
                            "); allowed: off, node, or a divisor of it"));
  }
  if (zero.qwz == 0 && zero.qgz == 0) return problems;
  if (o.comm.collectives == comm::Collectives::native) {
    problems.push_back(text(asked(zero),
                            " cannot be combined with comm.collectives = native: the MPI library's collectives do not "
                            "quantize; allowed: reproducible"));
  }
  if (sync::trains_locally(o.sync)) {
    problems.push_back(text(
        asked(zero), " cannot be combined with sync.kind = ", name_of(o.sync.kind),
        ": nodes that train locally exchange no gradients, and gather no parameters from other nodes; allowed: every_step"));
  }
  if (zero.qgz != 0 && o.adascale.on) {
    problems.push_back(text("zero.qgz = ", zero.qgz,
                            " cannot be combined with optimizer.adascale = true: AdaScale would mistake quantization error "
                            "for gradient noise; allowed: off"));
  }
  return problems;
}

}  // namespace shoal::config
