// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shoal::test {

/// Returns run(), which computes by kernels as if they did their work at once and reached all memory that operator new gives
/// out. On a GPU that needs preparation (with_gpu.cpp), and if there is none, this prints why and returns exit_skipped.
/// Called once, by main().
int with_device(int (*run)());

}  // namespace shoal::test
