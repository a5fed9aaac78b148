// SPDX-License-Identifier: Apache-2.0
// Pieces of arenas in memory of the host, on devices whose arenas are beyond its reach.
#include <algorithm>

#include "shoal/base/error.hpp"
#include "shoal/device/cells.hpp"
#include "shoal/device/memory.hpp"
#include "shoal/device/tier.hpp"
#include "shoal/device/timing.hpp"

namespace shoal::device {

bool kernels_reach(Where where) { return where == Where::device; }

std::size_t piece_bytes() { return largest_piece_bytes; }

void in_pieces(Span<float> values, Access access, std::size_t alignment,
               const std::function<void(std::size_t first, Span<float> piece)>& use) {
  if (values.empty()) return;
  if (Tier* const tier = tier_of(values.data())) return in_pieces_of_tier(*tier, values, access, alignment, use);
  if (!holds(values.data())) return use(0, values);
  const Span<std::byte> pieces = PieceMemory::newest();
  const std::size_t length = pieces.size() / sizeof(float) / alignment * alignment;
  require(length > 0, "the device has no memory for pieces of ", alignment, " elements");
  const Span<float> memory(reinterpret_cast<float*>(pieces.data()), length);
  for (std::size_t first = 0; first < values.size(); first += length) {
    const Span<float> part = values.subspan(first, std::min(length, values.size() - first));
    const Span<float> here = memory.first(part.size());
    if (access == Access::read) {
      copy(part.size_bytes(), part.data(), here.data());
      wait_for_queue();
      read_spans();
    }
    use(first, here);
    if (access == Access::write) {
      copy(part.size_bytes(), here.data(), part.data());
      wait_for_queue();
      read_spans();
    }
  }
}

}  // namespace shoal::device
