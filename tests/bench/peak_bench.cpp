// SPDX-License-Identifier: Apache-2.0
// What one core's arithmetic units can do (kernels/peak.hpp): GFLOP/s of loops of multiply-adds, of vdpbf16ps and of AMX
// tiles in registers, 0 where the processor lacks them; and the most of what products in fp32 and bf16 may be made of.
// bench.py holds trainings against it.
#include <cstdio>

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
