// SPDX-License-Identifier: Apache-2.0
// Small collectives that the commands need.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::app {

/// Rank 0 calls act(), and all ranks wait for it. If it throws, every rank throws the same Error.
void on_rank_0(comm::Communicator& group, const std::function<void()>& act);

/// Every rank calls act(), which must not communicate, and all wait for each other. If it throws on some ranks, every rank
/// throws the error of the lowest of them, which names that rank unless it is 0.
void on_all_ranks(comm::Communicator& group, const std::function<void()>& act);

/// Gives all ranks rank `root`'s text or bytes.
template <typename Container>
void broadcast_all_of(comm::Communicator& group, Container& content, int root) {
  std::uint64_t size = content.size();
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&size, 1)), root).wait();
  content.resize(size);
  group.broadcast(comm::bytes_of(Span<typename Container::value_type>(content.data(), size)), root).wait();
}

/// Returns rank `root`'s text on all ranks.
std::string broadcast_text(comm::Communicator& group, const std::string& text, int root);

/// Returns the largest of all ranks' numbers.
double largest(comm::Communicator& group, double mine);

/// Returns the number of every rank, by rank.
std::vector<std::uint64_t> gather_numbers(comm::Communicator& group, std::uint64_t mine);

}  // namespace shoal::app
