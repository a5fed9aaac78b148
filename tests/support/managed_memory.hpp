// SPDX-License-Identifier: Apache-2.0
// Tests of kernels keep operands in std::vector. On a GPU their memory must be within reach of kernels.
#pragma once

namespace shoal::test {

/// From now on operator new takes managed memory of CUDA, each piece by an allocation of its own, so that compute-sanitizer
/// sees accesses beyond its end; or it takes memory of the host, as at first. A program without managed_memory.cpp has no
/// managed memory, and this does nothing there (no_managed_memory.cpp).
void manage_memory(bool on);

}  // namespace shoal::test
