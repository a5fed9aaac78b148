// SPDX-License-Identifier: Apache-2.0
#include "app/bench/bench_arithmetic.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <vector>

#include "app/setup/peak.hpp"
#include "app/support/collective.hpp"
#include "app/support/statistics.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/kernels/bytes.hpp"
#include "shoal/kernels/quantize.hpp"
#include "shoal/kernels/storage.hpp"
#include "shoal/plan/memory.hpp"
#include "shoal/zero/engine.hpp"

namespace shoal::app {

namespace {

using Clock = std::chrono::steady_clock;

constexpr double segment_s = 0.1;    // arithmetic without a break, as between two waits of a step
constexpr std::size_t segments = 5;  // the median of these counts

/// Mean seconds of a pass, from the start of the first rank to the end of the last one. So it includes the time that ranks
/// on the same cores wait for each other at the end of a segment of a step. The device has no work left at either end.
template <typename Pass>
double segment_seconds_of(comm::World& world, std::size_t passes, const Pass& pass) {
  device::wait_for_device();
  world.all().barrier().wait();
  const Clock::time_point begin = Clock::now();
  for (std::size_t i = 0; i < passes; ++i) pass();
  device::wait_for_device();
  world.all().barrier().wait();
  const double mine = std::chrono::duration<double>(Clock::now() - begin).count();
  return largest(world.all(), mine) / static_cast<double>(passes);
}

template <typename Pass>
double seconds_of(comm::World& world, const Pass& pass) {
  segment_seconds_of(world, 1, pass);  // the first pass also allocates pages and sets up products
  const double once = segment_seconds_of(world, 1, pass);
  const auto passes = static_cast<std::size_t>(std::clamp(segment_s / once, 1.0, 100000.0));
  std::vector<double> seconds;
  for (std::size_t i = 0; i < segments; ++i) seconds.push_back(segment_seconds_of(world, passes, pass));
  return median(seconds);
}

constexpr std::array<std::size_t, 4> widths = {64, 128, 256, 512};  // model.n_embd
constexpr std::size_t length = 128, sequences = 4;                  // of a micro-batch

zero::EngineOptions training_of(std::size_t width, DType dtype) {
  zero::EngineOptions options;
  options.model.n_layer = 2;
  options.model.n_head = std::max<std::size_t>(2, width / 64);
  options.model.n_embd = width;
  options.model.block_size = length;
  options.model.vocab_size = 256;
  options.dtype = options.gradients.dtype = dtype;
  options.capacity = {sequences, length};
  return options;
}

/// Training steps of one rank without communication.
class Training {
 public:
  explicit Training(const zero::EngineOptions& options)
      : options_(options),
        memory_(plan::memory(options, 0, 1).bytes),
        engine_(options, {}, memory_),
        tokens_(sequences * length) {
    for (std::size_t i = 0; i < tokens_.size(); ++i) tokens_[i] = static_cast<std::int32_t>(7 * i % 256);
    engine_.initialize(1);
  }

  void micro_batch() {
    engine_.forward(0, 0, {sequences, length, tokens_, tokens_});
    engine_.backward(0, 0);
    engine_.finish_gradients();
  }
  void update() {
    engine_.measure();
    engine_.update(engine_.norm(), {1, 1e-4, 0.9, 0.95, 1.0F});
    engine_.publish();
  }

  double flops() const { return static_cast<double>(tokens_.size()) * model::flops_per_token(options_.model); }
  double elements() const {
    double sum = 0;
    for (const model::UnitLayout& unit : model::layout(options_.model)) sum += static_cast<double>(unit.elements);
    return sum;
  }

 private:
  zero::EngineOptions options_;
  device::DeviceMemory memory_;
  zero::Engine engine_;
  std::vector<std::int32_t> tokens_;
};

/// Those that do not compute wait, as ranks of a pipeline do.
plan::Speedup speedup_of(comm::World& world, DType dtype) {
  heartbeat::phase("bench");
  Training training(training_of(256, dtype));
  const auto seconds_if = [&](bool computes) {
    return seconds_of(world, [&] {
      if (computes) training.micro_batch();
    });
  };
  const std::vector<int>& node_of = world.topology().node_of;
  const int rank = world.all().rank();
  const double all_s = seconds_if(true);
  const double node_s = seconds_if(node_of[static_cast<std::size_t>(rank)] == node_of.front()),
               rank_s = seconds_if(rank == 0);
  return {all_s / node_s, all_s / rank_s};
}

plan::TrainingRates rates_of(comm::World& world, DType dtype) {
  plan::TrainingRates rates;
  for (const std::size_t width : widths) {
    heartbeat::phase("bench");
    Training training(training_of(width, dtype));
    rates.gflops[width] = training.flops() / seconds_of(world, [&] { training.micro_batch(); }) * 1e-9;
    if (width == widths.back()) rates.update_s = seconds_of(world, [&] { training.update(); }) / training.elements();
  }
  if (world.all().size() > 1) rates.speedup = speedup_of(world, dtype);
  return rates;
}

}  // namespace

double sum_seconds_per_byte(comm::World& world) {
  constexpr std::size_t bytes = std::size_t{1} << 20U;  // larger than a message of the tree
  constexpr std::size_t n = bytes / sizeof(float);
  Span<float> from, into;
  const device::DeviceMemory memory([&](Memory& m) {
    from = m.take<float>(Kind::buffers, n, "terms");
    into = m.take<float>(Kind::buffers, n, "sums");
  });
  // Written once, because pages that were only read may all be one page of zeros.
  kernels::fill(n, 0.0F, from.data());
  return seconds_of(world, [&] { kernels::add(DType::f32, n, from.data(), into.data()); }) / bytes;
}

plan::Codec codec_seconds(comm::World& world, int bits) {
  constexpr std::size_t n = std::size_t{1} << 18U;
  const kernels::QuantFormat format{bits};
  Span<bf16> given, values;
  Span<std::byte> codes;
  Span<kernels::QuantError> errors;
  const device::DeviceMemory memory([&](Memory& m) {
    given = m.take<bf16>(Kind::staging, n, "values");
    values = m.take<bf16>(Kind::buffers, n, "values");
    codes = m.take<std::byte>(Kind::buffers, kernels::quantized_bytes(n, format), "codes");
    errors = m.take<kernels::QuantError>(Kind::buffers, kernels::quant_error_parts, "errors");
  });
  for (std::size_t i = 0; i < n; ++i) given[i] = bf16(static_cast<float>(i * 7919 % 4001) / 1000.0F - 2.0F);
  device::copy(given.size_bytes(), given.data(), values.data());
  plan::Codec codec;
  codec.quantize_s =
      seconds_of(world,
                 [&] {
                   kernels::quantize(format, DType::bf16, n, values.data(), codes.data());
                   kernels::add_quantization_error(format, DType::bf16, n, values.data(), codes.data(), errors.data());
                 }) /
      n;
  codec.dequantize_s =
      seconds_of(world, [&] { kernels::dequantize(format, DType::bf16, n, codes.data(), values.data()); }) / n;
  return codec;
}

std::map<std::string, double> peak_gflops(comm::World& world) {
  std::map<std::string, double> gflops;
  gflops["fp32"] = measured_peak(world, DType::f32);
  gflops["bf16"] = measured_peak(world, DType::bf16);
  return gflops;
}

std::map<std::string, plan::TrainingRates> training_rates(comm::World& world) {
  return {{"fp32", rates_of(world, DType::f32)}, {"bf16", rates_of(world, DType::bf16)}};
}

}  // namespace shoal::app
