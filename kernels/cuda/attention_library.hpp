// SPDX-License-Identifier: Apache-2.0
// The library of attention: cuDNN (attention_cudnn.cpp), or none (attention_without_cudnn.cpp), as the build has it.
#pragma once

#include <string>

namespace shoal::kernels::cuda {

/// Takes what the library needs of the GPU's memory.
void start_attention();
/// Its version, or that there is none.
std::string attention_version();

}  // namespace shoal::kernels::cuda
