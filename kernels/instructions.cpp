// SPDX-License-Identifier: Apache-2.0
#include "instructions.hpp"

#include <dnnl.hpp>

namespace shoal::kernels {

namespace {

/// The library's sets of instructions are sets of bits.
bool uses(dnnl::cpu_isa wanted) {
  static const auto usable = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (usable & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

}  // namespace

bool may_use(Instructions instructions) {
  return uses(instructions == Instructions::bf16 ? dnnl::cpu_isa::avx512_core_bf16 : dnnl::cpu_isa::avx512_core_amx);
}

std::string instructions_used() {
  if (uses(dnnl::cpu_isa::avx512_core_amx)) return "AVX512_CORE_AMX";
  if (uses(dnnl::cpu_isa::avx512_core_bf16)) return "AVX512_CORE_BF16";
  if (uses(dnnl::cpu_isa::avx512_core)) return "AVX512_CORE";
  return uses(dnnl::cpu_isa::avx2) ? "AVX2" : "less than AVX2";
}

}  // namespace shoal::kernels
