// SPDX-License-Identifier: Apache-2.0
// Text that rank 0 reads and sends to all others, so that thousands of ranks do not open one file at once.
#pragma once

#include <functional>
#include <string>

namespace shoal::comm {

/// Collective over all ranks, also before World::make_groups(). Returns what `read` returns on rank 0, where alone it is
/// called; it must not throw. name: of the text; bad_input() on all ranks if one of them gives another name.
std::string text_of_rank_0(const std::string& name, const std::function<std::string()>& read);

}  // namespace shoal::comm
