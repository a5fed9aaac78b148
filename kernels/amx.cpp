// SPDX-License-Identifier: Apache-2.0
#include "amx.hpp"

#if defined(SHOAL_AMX)
#include <asm/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "instructions.hpp"
#endif

namespace shoal::kernels::amx {

bool available() {
#if defined(SHOAL_AMX)
  // A thread's state grows by 8 KB at its first tile instruction, so Linux wants to be asked.
  constexpr int tile_data = 18;  // the state's number in XSAVE
  static const bool usable = may_use(Instructions::tiles) && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, tile_data) == 0;
  return usable;
#else
  return false;
#endif
}

}  // namespace shoal::kernels::amx
