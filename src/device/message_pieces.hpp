// SPDX-License-Identifier: Apache-2.0
// Copies of messages to and from memory of the host that was pinned in pieces.
#pragma once

#include <algorithm>
#include <cstddef>

namespace shoal::device {

/// Calls use(begin, count) for each piece's part of a message of so many bytes, in their order; begin: from the message's
/// start. Pieces begin at multiples of `piece`, and the message at `first`. CUDA refuses to copy memory of two pieces that
/// were pinned one by one, even if they are neighbours, so a copy has the bytes of one piece.
template <typename Use>
void for_each_piece(std::size_t first, std::size_t bytes, std::size_t piece, const Use& use) {
  for (std::size_t begin = 0, count = 0; begin < bytes; begin += count) {
    count = std::min(piece - (first + begin) % piece, bytes - begin);
    use(begin, count);
  }
}

}  // namespace shoal::device
