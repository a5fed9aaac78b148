// SPDX-License-Identifier: Apache-2.0
#include "app/support/collective.hpp"

#include <exception>

#include "shoal/base/error.hpp"

namespace shoal::app {

namespace {

/// How act() ended: Exit::done, or its error.
struct Outcome {
  Exit code = Exit::done;
  std::string message;
};

Outcome outcome_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return {error.code(), error.what()};
  } catch (const std::exception& error) {  // from the standard library: file systems, memory
    return {Exit::failed, error.what()};
  }
  return {};
}

/// Throws the outcome of rank `root` on all ranks if it is an error.
void throw_everywhere(comm::Communicator& group, const Outcome& own, int root) {
  auto code = static_cast<std::uint64_t>(own.code);
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&code, 1)), root).wait();
  if (code == static_cast<std::uint64_t>(Exit::done)) return;
  throw Error(static_cast<Exit>(code), Seen::everywhere, broadcast_text(group, own.message, root));
}

}  // namespace

void on_rank_0(comm::Communicator& group, const std::function<void()>& act) {
  throw_everywhere(group, group.rank() == 0 ? outcome_of(act) : Outcome{}, 0);
}

void on_all_ranks(comm::Communicator& group, const std::function<void()>& act) {
  Outcome own = outcome_of(act);
  std::int64_t first = own.code == Exit::done ? group.size() : group.rank();
  group.all_reduce(Span<std::int64_t>(&first, 1), comm::Reduce::min).wait();
  if (first == group.size()) return;
  if (first != 0) own.message = text("rank ", first, ": ", own.message);
  throw_everywhere(group, own, static_cast<int>(first));
}

std::string broadcast_text(comm::Communicator& group, const std::string& text, int root) {
  std::string result = text;
  broadcast_all_of(group, result, root);
  return result;
}

double largest(comm::Communicator& group, double mine) {
  group.all_reduce(Span<double>(&mine, 1), comm::Reduce::max).wait();
  return mine;
}

std::vector<std::uint64_t> gather_numbers(comm::Communicator& group, std::uint64_t mine) {
  std::vector<std::uint64_t> all(static_cast<std::size_t>(group.size()));
  group.all_gather(comm::bytes_of(Span<std::uint64_t>(&mine, 1)), comm::bytes_of(Span<std::uint64_t>(all))).wait();
  return all;
}

}  // namespace shoal::app
