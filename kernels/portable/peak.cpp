// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/peak.hpp"

#include <algorithm>
#include <ctime>

#include "kernels/common/peak_iterations.hpp"
#include "kernels/portable/launch.hpp"
#include "kernels/rules/number.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// Floats that one register holds.
#if defined(__AVX512F__)
constexpr std::size_t cpu_lanes = 16;
#elif defined(__AVX__)
constexpr std::size_t cpu_lanes = 8;
#else
constexpr std::size_t cpu_lanes = 4;
#endif
/// Sums of a thread, in 14 registers. Latency times instructions per cycle is at most 12 on known processors.
constexpr std::size_t sums = 14 * (on_host ? cpu_lanes : 1);
/// A GPU needs many teams to use all of its units.
constexpr std::size_t teams_of_gpu = 4096;

std::size_t teams() { return on_host ? static_cast<std::size_t>(threads()) : teams_of_gpu; }

/// Each thread adds `iterations` products to each of its sums.
void multiply_adds(std::size_t iterations) {
  const std::size_t threads_of_team = static_cast<std::size_t>(team_size_of_launches());
  for_teams(
      "peak", teams(), threads_of_team * sizeof(float), SHOAL_LAMBDA(std::size_t, const Team& team) {
        constexpr float factor = 0x1p-9F;  // so small that the sums stay finite
        float sum[sums];
        for (std::size_t i = 0; i < sums; ++i) sum[i] = factor * static_cast<float>(i);
        for (std::size_t n = 0; n < iterations; ++n) {
          for (float& s : sum) s = rules::Number<float>::fma(factor, factor, s);
        }
        float total = 0.0F;
        for (const float s : sum) total += s;
        reinterpret_cast<float*>(team.scratch())[team.thread()] = total;  // so that the compiler must compute it
      });
  device::wait_for_queue();
}

/// On a CPU the time that all threads of this process have computed, which other programs do not lengthen.
double seconds_now() {
  timespec now{};
  clock_gettime(on_host ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(std::size_t iterations) {
  const double begin = seconds_now();
  multiply_adds(iterations);
  return seconds_now() - begin;
}

}  // namespace

double measured_gflops(Arithmetic arithmetic) {
  if (arithmetic != Arithmetic::multiply_add) return 0;
  const auto cores = static_cast<double>(threads());
  const std::size_t iterations = iterations_of(1e-3 * cores, seconds_of);
  double best = seconds_of(iterations);
  for (int slice = 1; slice < 8; ++slice) best = std::min(best, seconds_of(iterations));
  const auto workers = static_cast<double>(teams()) * team_size_of_launches();
  return 1e-9 * 2.0 * static_cast<double>(sums * iterations) * workers * cores / best;
}

double measured_peak_gflops(DType /*type*/) { return measured_gflops(Arithmetic::multiply_add); }

const char* origin_of_peak() { return "measured"; }

}  // namespace shoal::kernels
