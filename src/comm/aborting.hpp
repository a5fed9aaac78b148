// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shoal::comm {

/// The phase of a rank that ends all ranks (abort.hpp). It has said why, and ends before the launcher has ended the others.
inline constexpr const char* aborting = "abort";

}  // namespace shoal::comm
