// SPDX-License-Identifier: Apache-2.0
// How the log names Kokkos.
#pragma once

#include <string>

#include "shoal/base/error.hpp"

namespace shoal::kernels {

/// For example "4.3.1 (Serial)". number: KOKKOS_VERSION; space: where kernels run.
inline std::string kokkos_version(int number, const char* space) {
  return text(number / 10000, '.', number / 100 % 100, '.', number % 100, " (", space, ")");
}

}  // namespace shoal::kernels
