// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/peak.hpp"

namespace shoal::kernels {

const char* name_of(Arithmetic arithmetic) {
  return arithmetic == Arithmetic::multiply_add ? "vfmadd231ps"
         : arithmetic == Arithmetic::bf16_pairs ? "vdpbf16ps"
                                                : "tdpbf16ps";
}

}  // namespace shoal::kernels
