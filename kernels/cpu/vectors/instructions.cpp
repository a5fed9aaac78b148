// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/vectors/instructions.hpp"

#include <dnnl.hpp>

#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace shoal::kernels {

namespace {

/// Returns true if oneDNN uses all of these instructions. Its instruction sets are bit masks.
bool library_uses(dnnl::cpu_isa wanted) {
  static const auto usable = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (usable & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

/// Asks Linux for the use of tiles: it requires this since a thread's state grows by 8 KB at the first tile instruction.
bool granted_tiles() {
#if defined(__x86_64__) && defined(__linux__)
  constexpr int request = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM in <asm/prctl.h>; the index of this state in XSAVE
  static const bool granted = syscall(SYS_arch_prctl, request, tile_data) == 0;
  return granted;
#else
  return false;
#endif
}

}  // namespace

bool may_use(Instructions instructions) {
  switch (instructions) {
    case Instructions::avx2: return library_uses(dnnl::cpu_isa::avx2);
    case Instructions::avx512: return library_uses(dnnl::cpu_isa::avx512_core);
    case Instructions::bf16: return library_uses(dnnl::cpu_isa::avx512_core_bf16);
    case Instructions::tiles: return library_uses(dnnl::cpu_isa::avx512_core_amx) && granted_tiles();
  }
  return false;
}

std::string instructions_used() {
  if (library_uses(dnnl::cpu_isa::avx512_core_amx)) return "AVX512_CORE_AMX";
  if (may_use(Instructions::bf16)) return "AVX512_CORE_BF16";
  if (may_use(Instructions::avx512)) return "AVX512_CORE";
  return may_use(Instructions::avx2) ? "AVX2" : "less than AVX2";
}

}  // namespace shoal::kernels
