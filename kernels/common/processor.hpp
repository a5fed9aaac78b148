// SPDX-License-Identifier: Apache-2.0
// What this computer's processor and compiler are called.
#pragma once

#include <string>

namespace shoal::kernels {

/// The processor's name, e.g. "AMD EPYC 9654".
std::string processor_name();
/// The instructions that the compiler could use: "AVX-512, bf16", "AVX-512", "AVX2" or "baseline".
std::string instructions_built_for();
/// The compiler and its version.
std::string compiler_name();

}  // namespace shoal::kernels
