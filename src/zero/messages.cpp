// SPDX-License-Identifier: Apache-2.0
#include "shoal/zero/messages.hpp"

#include <algorithm>

#include "shoal/zero/partition.hpp"

namespace shoal::zero {

Range block_of(const Part& part, std::size_t unit_elements, int rank, int ranks) {
  const Range shard = shard_of(unit_elements, rank, ranks);
  return intersection(shard, {shard.begin + part.sub.begin, shard.begin + part.sub.end});
}

comm::Blocks shard_blocks(Span<std::byte> whole, std::size_t element_bytes, int ranks) {
  comm::Blocks blocks(static_cast<std::size_t>(ranks));
  for (int d = 0; d < ranks; ++d) {
    const Range shard = shard_of(whole.size() / element_bytes, d, ranks);
    if (!shard.empty()) {
      blocks[static_cast<std::size_t>(d)] = {whole.subspan(shard.begin * element_bytes, shard.size() * element_bytes)};
    }
  }
  return blocks;
}

std::vector<Message> cut_messages(const std::vector<model::UnitLayout>& units, const std::vector<int>& order, int ranks,
                                  std::size_t most) {
  const auto size = static_cast<std::size_t>(ranks);
  const std::size_t per_shard = std::max(piece, most / size / piece * piece);  // elements of one shard in a message
  std::vector<Message> messages;
  std::size_t room = 0;  // what is left of per_shard in the last message
  for (const int u : order) {
    const std::size_t elements = units[static_cast<std::size_t>(u)].elements;
    const std::size_t length = shard_length(elements, ranks);
    for (std::size_t begin = 0; begin < length;) {
      if (room == 0) {
        messages.emplace_back();
        room = per_shard;
      }
      Message& message = messages.back();
      const Part part{u, {begin, std::min(length, begin + room)}};
      message.parts.push_back(part);
      message.last_unit = u;
      for (int d = 0; d < ranks; ++d) message.elements += block_of(part, elements, d, ranks).size();
      room -= part.sub.size();
      begin = part.sub.end;
    }
  }
  return messages;
}

}  // namespace shoal::zero
