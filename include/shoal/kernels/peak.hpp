// SPDX-License-Identifier: Apache-2.0
// The most that a processor's arithmetic units can do: what utilisation refers to.
#pragma once

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// The instructions that matrix products are made of.
enum class Arithmetic {
  multiply_add,  ///< vfmadd231ps: fused multiply-adds of floats
  bf16_pairs,    ///< vdpbf16ps: products of pairs of bf16, added to floats
  bf16_tiles     ///< tdpbf16ps: products of tiles of bf16
};
/// "vfmadd231ps", ...
const char* name_of(Arithmetic arithmetic);

/// GFLOP/s of such instructions on all threads() together, each on a core of its own: instructions that do not depend on
/// each other, on registers alone. Seconds are the threads' own processor time, so that other programs, and ranks that share
/// a core, do not make it smaller; the best of several milliseconds. 0 where the processor, or the limit of instructions
/// (kernels/instructions.hpp), lacks them. A product of matrices cannot be faster.
double measured_gflops(Arithmetic arithmetic);

/// The most that this process can reach in products of such numbers, on threads() cores: by whichever instructions they may
/// be made of. With AMX, products of floats are six products of bf16 each; fp16 is multiplied as floats.
double measured_peak_gflops(DType type);

}  // namespace shoal::kernels
