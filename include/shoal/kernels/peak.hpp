// SPDX-License-Identifier: Apache-2.0
// The peak rate of a processor's arithmetic units, to which utilisation refers.
#pragma once

#include "shoal/base/types.hpp"

namespace shoal::kernels {

/// The instructions that matrix products consist of.
enum class Arithmetic {
  multiply_add,  ///< vfmadd231ps: fused multiply-adds of floats
  bf16_pairs,    ///< vdpbf16ps: products of pairs of bf16, added to floats
  bf16_tiles     ///< tdpbf16ps: products of tiles of bf16
};
/// "vfmadd231ps", ...
const char* name_of(Arithmetic arithmetic);

/// GFLOP/s of such instructions, summed over threads() threads that each have a core of their own. The instructions are
/// independent and use registers only, so no matrix product can be faster. Time is the threads' own processor time, so that
/// other programs and other ranks on the same core do not reduce the result; it is the best of several milliseconds.
/// Returns 0 if the processor lacks the instructions, or if the limit of kernels/cpu/vectors/instructions.hpp excludes them.
/// Portable kernels know multiply_add alone.
double measured_gflops(Arithmetic arithmetic);

/// The peak GFLOP/s of matrix products of this type on threads() cores, by the fastest instructions that can compute them.
/// With AMX a product of floats can be computed as six products of bf16; fp16 is multiplied as float.
/// On a GPU it is that of the vendor's data sheet, or follows from the number of its units and their highest clock.
double measured_peak_gflops(DType type);
/// Where that number comes from: "measured", "data sheet", ...
const char* origin_of_peak();

}  // namespace shoal::kernels
