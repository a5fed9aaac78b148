// SPDX-License-Identifier: Apache-2.0
// Measures the peak GFLOP/s of one core (kernels/peak.hpp): of loops of multiply-adds, of vdpbf16ps and of AMX tiles, all in
// registers (0: the processor lacks them), and the best that products in fp32 and in bf16 can reach with these. bench.py
// compares trainings with it.
#include <cstdio>

#include "shoal/base/names.hpp"
#include "shoal/kernels/peak.hpp"
#include "shoal/kernels/runtime.hpp"

int main() {
  using namespace shoal;
  using kernels::Arithmetic;
  const kernels::Runtime runtime(1);
  for (const Arithmetic loop : {Arithmetic::multiply_add, Arithmetic::bf16_pairs, Arithmetic::bf16_tiles}) {
    std::printf("%s %.2f\n", kernels::name_of(loop), kernels::measured_gflops(loop));
  }
  for (const DType type : {DType::f32, DType::bf16}) {
    std::printf("%s %.2f\n", name_of(type), kernels::measured_peak_gflops(type));
  }
}
