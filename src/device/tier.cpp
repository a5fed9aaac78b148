// SPDX-License-Identifier: Apache-2.0
#include "shoal/device/tier.hpp"

#include <algorithm>

#include "shoal/base/error.hpp"

namespace shoal::device {

namespace {

std::vector<Tier*>& tiers() {
  static std::vector<Tier*> all;
  return all;
}

}  // namespace

Tier::Tier(const Memory& memory, Where where) : memory_(memory), where_(where) { tiers().push_back(this); }
Tier::~Tier() { std::erase(tiers(), this); }

bool Tier::holds(const std::byte* address) const {
  return std::any_of(kinds.begin(), kinds.end(), [&](Kind kind) {
    const Span<std::byte> arena = memory_.arena(where_, kind);
    return arena.data() <= address && address < arena.data() + arena.size();
  });
}

const std::vector<Tier::Buffer>& Tier::buffers() const {
  if (!buffers_.empty()) return buffers_;
  std::array<std::size_t, kinds.size()> taken{};
  for (const Memory::Entry& entry : memory_.entries()) {
    if (entry.where != where_ || entry.bytes == 0) continue;
    std::size_t& before = taken[static_cast<std::size_t>(entry.kind)];
    buffers_.push_back({memory_.arena(where_, entry.kind).data() + before, entry.bytes, 0, entry.kind, entry.label.c_str()});
    before += entry.bytes;
  }
  std::sort(buffers_.begin(), buffers_.end(),
            [](const Buffer& one, const Buffer& other) { return one.begin < other.begin; });
  std::uint64_t offset = 0;
  for (Buffer& buffer : buffers_) {
    buffer.offset = offset;
    offset += buffer.bytes;
  }
  return buffers_;
}

const Tier::Buffer& Tier::buffer_of(const std::byte* address) const {
  const std::vector<Buffer>& all = buffers();
  const auto next =
      std::partition_point(all.begin(), all.end(), [&](const Buffer& buffer) { return buffer.begin <= address; });
  require(next != all.begin() && address < std::prev(next)->begin + std::prev(next)->bytes, "no buffer of the tier");
  return *std::prev(next);
}

Tier* tier_of(const void* address) {
  for (Tier* const tier : tiers()) {
    if (tier->holds(static_cast<const std::byte*>(address))) return tier;
  }
  return nullptr;
}

void in_pieces_of_tier(Tier& tier, Span<float> values, Access access, std::size_t alignment,
                       const std::function<void(std::size_t first, Span<float> piece)>& use) {
  const Span<std::byte> pieces = PieceMemory::newest();
  const std::size_t length = pieces.size() / sizeof(float) / alignment * alignment;
  require(length > 0, "there is no memory for pieces of ", alignment, " elements");
  const Span<float> memory(reinterpret_cast<float*>(pieces.data()), length);
  for (std::size_t first = 0; first < values.size(); first += length) {
    const Span<float> part = values.subspan(first, std::min(length, values.size() - first));
    const Span<float> here = memory.first(part.size());
    if (access == Access::read) tier.read(std::as_bytes(part), std::as_writable_bytes(here));
    use(first, here);
    if (access == Access::write) tier.write(std::as_bytes(here), std::as_writable_bytes(part));
  }
}

}  // namespace shoal::device
