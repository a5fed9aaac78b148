// SPDX-License-Identifier: Apache-2.0
#include "plan/time/sequences.hpp"

#include <algorithm>
#include <utility>

namespace shoal::plan {

void Sequences::start(std::size_t number, const Cost& cost, double from_s, std::size_t after) {
  Operation operation{number, after, {{{0, cost.node_s}, {1, cost.across_s}}}, cost.between_s, from_s, 0};
  if (!cost.node_first) std::swap(operation.exchanges[0], operation.exchanges[1]);
  all_[index_of(cost.sequence)].operations.push_back(operation);
}

double Sequences::end_of(std::size_t number) {
  while (ends_.count(number) == 0) advance();
  return ends_.extract(number).mapped();
}

/// False while the operation that it waits for is in flight. The oldest of all operations may always begin.
bool Sequences::may_begin(const Operation& operation) const {
  if (operation.after == operation.number) return true;
  const auto awaited = [&](const Operation& other) { return other.number == operation.after; };
  return std::none_of(all_.begin(), all_.end(), [&](const Sequenced& sequence) {
    return std::any_of(sequence.operations.begin(), sequence.operations.end(), awaited);
  });
}

/// Carries out one exchange: of those that have the turn, the first to reach its link.
void Sequences::advance() {
  Sequenced* next = nullptr;
  double reaches_s = 0;
  for (Sequenced& sequence : all_) {
    if (sequence.operations.empty() || !may_begin(sequence.operations.front())) continue;
    const Operation& first = sequence.operations.front();
    double ready_s = std::max(first.ready_s, sequence.free_s);
    if (const auto end = ends_.find(first.after); end != ends_.end()) ready_s = std::max(ready_s, end->second);
    if (next != nullptr && reaches_s <= ready_s) continue;
    next = &sequence;
    reaches_s = ready_s;
  }
  Operation& operation = next->operations.front();
  const auto& [link, seconds] = operation.exchanges[operation.done];
  double& free_s = link_free_s_[link];
  if (seconds > 0) reaches_s = free_s = std::max(reaches_s, free_s) + seconds;
  operation.ready_s = reaches_s;
  if (++operation.done == 1) operation.ready_s += operation.between_s;
  if (operation.done < operation.exchanges.size()) return;
  next->free_s = operation.ready_s;
  ends_[operation.number] = operation.ready_s;
  next->operations.pop_front();
}

}  // namespace shoal::plan
