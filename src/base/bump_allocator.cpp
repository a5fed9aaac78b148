// SPDX-License-Identifier: Apache-2.0
#include "shoal/base/bump_allocator.hpp"

#include "shoal/base/error.hpp"

namespace shoal {

Span<std::byte> BumpAllocator::take_bytes(std::size_t bytes) {
  require(counting_ || (used_ <= memory_.size() && bytes <= memory_.size() - used_), "a buffer of ", bytes, " bytes after ",
          used_, " of a scratch memory of ", memory_.size());
  std::byte* const begin = counting_ ? nullptr : memory_.data() + used_;
  used_ += round_up(bytes, alignment_);
  return {begin, bytes};
}

}  // namespace shoal
