// SPDX-License-Identifier: Apache-2.0
#include "collective.hpp"

#include <exception>

#include "shoal/base/error.hpp"

namespace shoal::app {

void on_rank_0(comm::Communicator& group, const std::function<void()>& act) {
  std::string message;
  auto code = static_cast<std::uint64_t>(Exit::done);
  if (group.rank() == 0) {
    try {
      act();
    } catch (const Error& error) {
      message = error.what();
      code = static_cast<std::uint64_t>(error.code());
    } catch (const std::exception& error) {  // from the standard library: file systems, memory
      message = error.what();
      code = static_cast<std::uint64_t>(Exit::failed);
    }
  }
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&code, 1)), 0).wait();
  if (code == static_cast<std::uint64_t>(Exit::done)) return;
  throw Error(static_cast<Exit>(code), Seen::everywhere, broadcast_text(group, message, 0));
}

std::string broadcast_text(comm::Communicator& group, const std::string& text, int root) {
  std::uint64_t length = text.size();
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&length, 1)), root).wait();
  std::string result = group.rank() == root ? text : std::string(length, '\0');
  group.broadcast(comm::bytes_of(Span<char>(result.data(), result.size())), root).wait();
  return result;
}

std::vector<std::uint64_t> gather_numbers(comm::Communicator& group, std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(comm::bytes_of(Span<std::uint64_t>(&mine, 1)), comm::bytes_of(Span<std::uint64_t>(all))).wait();
  return all;
}

}  // namespace shoal::app
