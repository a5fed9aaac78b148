// SPDX-License-Identifier: Apache-2.0
// cuBLASLt's handle, and its errors.
#pragma once

#include <cublasLt.h>

namespace shoal::kernels::cuda {

/// Fails unless the call has succeeded, with one line that names the product and the call.
void check(cublasStatus_t status, const char* label, const char* call);

/// The process's only one; made when it is first asked for, and never destroyed.
cublasLtHandle_t handle();

}  // namespace shoal::kernels::cuda
