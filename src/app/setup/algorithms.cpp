// SPDX-License-Identifier: Apache-2.0
#include "app/setup/algorithms.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "app/support/collective.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/output.hpp"

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

void prepare_kernels(comm::Communicator& group, const std::function<std::vector<std::string>()>& prepare) {
  std::vector<std::string> lines;
  on_all_ranks(group, [&] { lines = prepare(); });
  const std::vector<std::uint64_t> of_ranks = gather_numbers(group, lines.size());
  const auto with_lines = std::count_if(of_ranks.begin(), of_ranks.end(), [](std::uint64_t count) { return count > 0; });
  if (with_lines == 0) return;
  const auto first = std::find_if(of_ranks.begin(), of_ranks.end(), [](std::uint64_t count) { return count > 0; });
  std::string all;
  for (const std::string& line : lines) all += "shoal: warning: " + line + "\n";
  all = broadcast_text(group, all, static_cast<int>(first - of_ranks.begin()));
  if (group.rank() != 0) return;
  output::complain(all);
  if (with_lines == group.size()) return;
  output::complain(text("shoal: warning: so it is on ", counted(with_lines, "rank"), " of ", group.size(),
                        ", the first of which is ", first - of_ranks.begin(), ": ranks differ, and so may their bits\n"));
}

}  // namespace shoal::app
