// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shoal::kernels {

/// The number of threads of later kernels. Runtime sets it once; tests change it to compare results.
void set_threads(int threads);

}  // namespace shoal::kernels
