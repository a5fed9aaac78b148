// SPDX-License-Identifier: Apache-2.0
#include "io/files/agreement.hpp"

#include <cstdint>
#include <string>

namespace shoal::io {

void agree(comm::Communicator& group, const std::optional<Error>& mine) {
  std::int64_t first = mine ? group.rank() : group.size();
  group.all_reduce(Span<std::int64_t>(&first, 1), comm::Reduce::min).wait();
  if (first == group.size()) return;

  const bool speaker = first == group.rank();
  std::string message;
  if (speaker) {
    const bool name_rank = mine->seen() == Seen::here && first != 0;
    message = name_rank ? text("rank ", first, ": ", mine->what()) : mine->what();
  }
  std::uint64_t head[2] = {message.size(), speaker ? static_cast<std::uint64_t>(mine->code()) : 0};
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(head)), static_cast<int>(first)).wait();
  message.resize(head[0]);
  group.broadcast(comm::bytes_of(Span<char>(message)), static_cast<int>(first)).wait();
  throw Error(static_cast<Exit>(head[1]), Seen::everywhere, message);
}

}  // namespace shoal::io
