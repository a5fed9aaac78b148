// SPDX-License-Identifier: Apache-2.0
#include "comm/hang/rank_processes.hpp"

#include "shoal/comm/world.hpp"

namespace shoal::comm {

namespace {

struct Entry {
  ProcessId process;
  std::int64_t descriptor = -1;
};

}  // namespace

RankProcesses::RankProcesses(World& world) : rank_(world.all().rank()), pages_(static_cast<std::size_t>(world.size())) {
  const Entry mine{this_process(), activity::share()};
  std::vector<Entry> all(pages_.size());
  world.all().all_gather(const_bytes_of(Span<const Entry>(&mine, 1)), bytes_of(Span<Entry>(all))).wait();
  for (std::size_t r = 0; r < all.size(); ++r) {
    processes_.push_back(all[r].process);
    if (static_cast<int>(r) == rank_ || !all[r].process.visible_from(mine.process)) continue;
    visible_.push_back(static_cast<int>(r));
    pages_[r] = activity::OtherPage(all[r].process.number, static_cast<int>(all[r].descriptor));
  }
}

std::optional<activity::Picture> RankProcesses::picture(int rank) const {
  const activity::OtherPage& page = pages_[static_cast<std::size_t>(rank)];
  if (rank != rank_ && !page.readable()) return std::nullopt;
  activity::Picture result = rank == rank_ ? activity::picture() : page.picture();
  result.rank = rank;
  return result;
}

std::optional<double> RankProcesses::silence_s(int rank) const {
  const auto found = picture(rank);
  return found ? std::optional(found->silent_s) : std::nullopt;
}

}  // namespace shoal::comm
