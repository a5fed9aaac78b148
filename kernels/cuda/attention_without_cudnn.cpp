// SPDX-License-Identifier: Apache-2.0
// A build without cuDNN: portable/attention.cpp defines the public functions.
#include "kernels/cuda/attention_library.hpp"

namespace shoal::kernels::cuda {

void start_attention() {}

std::string attention_version() { return "none (attention by portable kernels)"; }

}  // namespace shoal::kernels::cuda
