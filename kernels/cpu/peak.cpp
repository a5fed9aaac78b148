// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/peak.hpp"

#include <omp.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <ctime>
#include <vector>

#include "kernels/common/peak_iterations.hpp"
#include "kernels/cpu/product/multiplier.hpp"
#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/cpu/vectors/instructions.hpp"
#include "kernels/cpu/vectors/simd.hpp"
#include "kernels/cpu/vectors/tile_registers.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {

namespace {

/// Number of sums, and so of instructions in flight. Latency times instructions per cycle is at most 12 on known processors.
/// Two more registers hold the factors.
constexpr std::size_t sums = 14;

/// A loop. Each iteration has `flops` floating-point operations.
struct Loop {
  void (*run)(std::size_t iterations);
  double flops;
};

#if defined(__x86_64__)
// Registers 14 and 15 hold the factors, which are small enough that the sums stay finite. The instructions are assembler
// text, since the build need not be for processors that have them. The list of overwritten registers names the first 16
// bytes of each, which includes the rest.
#define SHOAL_EACH_SUM(instruction, r)                                                                                   \
  instruction " %%" r "14, %%" r "15, %%" r "0\n" instruction " %%" r "14, %%" r "15, %%" r "1\n" instruction " %%" r    \
              "14, %%" r "15, %%" r "2\n" instruction " %%" r "14, %%" r "15, %%" r "3\n" instruction " %%" r "14, %%" r \
              "15, %%" r "4\n" instruction " %%" r "14, %%" r "15, %%" r "5\n" instruction " %%" r "14, %%" r "15, %%" r \
              "6\n" instruction " %%" r "14, %%" r "15, %%" r "7\n" instruction " %%" r "14, %%" r "15, %%" r            \
              "8\n" instruction " %%" r "14, %%" r "15, %%" r "9\n" instruction " %%" r "14, %%" r "15, %%" r            \
              "10\n" instruction " %%" r "14, %%" r "15, %%" r "11\n" instruction " %%" r "14, %%" r "15, %%" r          \
              "12\n" instruction " %%" r "14, %%" r "15, %%" r "13\n"
#define SHOAL_LOOP(name, instruction, r)                                                                                   \
  void name(std::size_t iterations) {                                                                                      \
    const float factor = 0x1.01p-9F; /* both halves are bf16 of about this size */                                         \
    asm volatile("vzeroall\n vbroadcastss %1, %%" r "14\n vbroadcastss %1, %%" r                                           \
                 "15\n"                                                                                                    \
                 "1:\n" SHOAL_EACH_SUM(instruction, r) "dec %0\n jnz 1b\n vzeroupper\n"                                    \
                 : "+r"(iterations)                                                                                        \
                 : "m"(factor)                                                                                             \
                 : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", \
                   "xmm12", "xmm13", "xmm14", "xmm15");                                                                    \
  }
SHOAL_LOOP(multiply_adds_of_8, "vfmadd231ps", "ymm")
SHOAL_LOOP(multiply_adds_of_16, "vfmadd231ps", "zmm")
SHOAL_LOOP(bf16_pairs, "vdpbf16ps", "zmm")
#undef SHOAL_LOOP
#undef SHOAL_EACH_SUM

void bf16_tiles(std::size_t iterations) {
  const amx::Registers registers;
  amx::zero<0>();
  amx::zero<1>();
  amx::zero<2>();
  amx::zero<3>();
  amx::zero<4>();
  amx::zero<5>();
  alignas(64) std::array<bf16, 512> factor;
  factor.fill(bf16(0x1p-9F));
  amx::load<6>(factor.data(), amx::row_bytes);
  amx::load<7>(factor.data(), amx::row_bytes);
  for (; iterations > 0; --iterations) {
    amx::multiply_add<0, 6, 7>();
    amx::multiply_add<1, 6, 7>();
    amx::multiply_add<2, 6, 7>();
    amx::multiply_add<3, 6, 7>();
    amx::multiply_add<4, 6, 7>();
    amx::multiply_add<5, 6, 7>();
  }
}
#endif

/// On other processors: the multiply-adds that the compiler generates.
void multiply_adds_of_the_build(std::size_t iterations) {
  const simd::Floats factor = simd::broadcast(0x1p-9F);
  std::array<simd::Floats, sums> sum{};
  for (; iterations > 0; --iterations) {
    for (simd::Floats& s : sum) s = simd::fma(factor, factor, s);
  }
  volatile float kept = 0;
  for (const simd::Floats& s : sum) kept = kept + s[0];
}

Loop loop_of(Arithmetic arithmetic) {
  constexpr double of_a_lane = 2.0 * sums;
#if defined(__x86_64__)
  switch (arithmetic) {
    case Arithmetic::multiply_add:
      if (may_use(Instructions::avx512)) return {multiply_adds_of_16, 16 * of_a_lane};
      if (may_use(Instructions::avx2)) return {multiply_adds_of_8, 8 * of_a_lane};
      break;
    case Arithmetic::bf16_pairs:
      if (may_use(Instructions::bf16)) return {bf16_pairs, 32 * of_a_lane};
      break;
    case Arithmetic::bf16_tiles:
      if (may_use(Instructions::tiles)) return {bf16_tiles, 6 * 2.0 * amx::rows * amx::columns * amx::depth};
      break;
  }
#endif
  if (arithmetic == Arithmetic::multiply_add) return {multiply_adds_of_the_build, simd::width * of_a_lane};
  return {nullptr, 0};
}

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double seconds_of(const Loop& loop, std::size_t iterations) {
  const double begin = processor_seconds();
  loop.run(iterations);
  return processor_seconds() - begin;
}

}  // namespace

double measured_gflops(Arithmetic arithmetic) {
  constexpr int slices = 8;
  const Loop loop = loop_of(arithmetic);
  if (loop.run == nullptr) return 0;
  const std::size_t iterations = iterations_of(1e-3, [&loop](std::size_t some) { return seconds_of(loop, some); });
  std::vector<double> rates(static_cast<std::size_t>(threads()));
  double best = 0;
  // All threads run at the same time: two of them may use the units of one core, and the clock is lower if many cores are
  // busy.
#pragma omp parallel num_threads(threads())
  for (int slice = 0; slice < slices; ++slice) {
#pragma omp barrier
    rates[static_cast<std::size_t>(omp_get_thread_num())] =
        static_cast<double>(iterations) * loop.flops / seconds_of(loop, iterations);
#pragma omp barrier
#pragma omp single
    {
      double sum = 0;
      for (const double rate : rates) sum += rate;
      best = std::max(best, sum);
    }
  }
  return 1e-9 * best;
}

double measured_peak_gflops(DType type) {
  constexpr double products_of_floats = 6;  // blocked_fp32.cpp
  const double floats = measured_gflops(Arithmetic::multiply_add);
  if (type != DType::bf16 || !abilities().bf16) {
    return amx::available() ? std::max(floats, measured_gflops(Arithmetic::bf16_tiles) / products_of_floats) : floats;
  }
  return std::max({floats, measured_gflops(Arithmetic::bf16_pairs), measured_gflops(Arithmetic::bf16_tiles)});
}

const char* origin_of_peak() { return "measured"; }

}  // namespace shoal::kernels
