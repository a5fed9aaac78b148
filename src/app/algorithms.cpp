// SPDX-License-Identifier: Apache-2.0
#include "algorithms.hpp"

#include <cstddef>
#include <cstdint>

#include "collective.hpp"

namespace shoal::app {

void agree_on_algorithms(comm::Communicator& group, const std::vector<kernels::Product>& products) {
  std::vector<std::byte> chosen;
  on_rank_0(group, [&] { chosen = kernels::choose_algorithms(products); });
  std::uint64_t bytes = chosen.size();
  group.broadcast(comm::bytes_of(Span<std::uint64_t>(&bytes, 1)), 0).wait();
  if (bytes == 0) return;
  chosen.resize(bytes);
  group.broadcast(Span<std::byte>(chosen), 0).wait();
  on_all_ranks(group, [&] { kernels::use_algorithms(products, chosen); });
}

}  // namespace shoal::app
