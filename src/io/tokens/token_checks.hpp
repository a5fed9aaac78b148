// SPDX-License-Identifier: Apache-2.0
// Checks of what is read of a tokens file.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shoal/base/types.hpp"
#include "shoal/io/token_layout.hpp"

namespace shoal::io {

/// fail() unless the file has these tokens, or this row, as TokenFile::read() takes them.
void require_range(const TokenLayout& layout, std::size_t first, std::size_t count);
/// An Error (Exit::bad_input) that names the position of the first id that is not in the vocabulary.
void require_in_vocabulary(const TokenLayout& layout, std::size_t first, Span<const std::int32_t> tokens);

}  // namespace shoal::io
