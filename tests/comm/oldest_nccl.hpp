// SPDX-License-Identifier: Apache-2.0
// What a source asks of the version of nccl.h, as if that were the oldest one.
#pragma once

#include <nccl.h>

#undef NCCL_VERSION_CODE
#define NCCL_VERSION_CODE NCCL_VERSION(2, 18, 1)  // NOLINT(cppcoreguidelines-macro-usage): it replaces a macro
