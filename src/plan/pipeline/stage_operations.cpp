// SPDX-License-Identifier: Apache-2.0
#include "plan/pipeline/stage_operations.hpp"

#include <utility>

namespace shoal::plan {

void StageOperations::start(zero::MessageKind kind, const Cost& cost, int stages) {
  auto operation = std::make_shared<Operation>(*clock_, cost.after_s);
  in_flight_[static_cast<std::size_t>(kind)].push_back(operation);
  if (kind == zero::MessageKind::losses || kind == zero::MessageKind::norm) {
    numbers_->add();
    exchange_numbers(cost.total_s(), ++exchanges_of_numbers_ * static_cast<std::size_t>(stages), std::move(operation));
  } else {
    exchange_data(cost, std::move(operation));
  }
}

std::shared_ptr<StageOperations::Operation> StageOperations::take_oldest(zero::MessageKind kind) {
  std::deque<std::shared_ptr<Operation>>& operations = in_flight_[static_cast<std::size_t>(kind)];
  std::shared_ptr<Operation> oldest = operations.front();
  operations.pop_front();
  return oldest;
}

/// All stages take part. begun: the starts that must have come before anyone has the numbers.
Process StageOperations::exchange_numbers(double seconds, std::size_t begun, std::shared_ptr<Operation> operation) {
  co_await numbers_->reaches(begun);
  co_await clock_->delay(seconds);
  operation->arrived.add();
}

/// Operations of a stage wait for each other at both of its links, as on a RankClock: in the order of their starts, or with
/// sequences in the order in which they reach a link.
Process StageOperations::exchange_data(const Cost& cost, std::shared_ptr<Operation> operation) {
  struct Exchange {
    Line* line;
    const PipelineResources::Used* links;
    double latency_s, bytes_s;
    std::size_t place = 0;
    bool exists() const { return latency_s > 0 || bytes_s > 0; }
  };
  std::array exchanges = {
      Exchange{&in_node_, &resources_->links_in_node(stage_), cost.node_latency_s, cost.node_s - cost.node_latency_s},
      Exchange{&across_, &resources_->links_across(stage_), cost.across_latency_s, cost.across_s - cost.across_latency_s}};
  if (!cost.node_first) std::swap(exchanges[0], exchanges[1]);
  const bool sequenced = cost.sequence != Sequence::none;
  Line* const sequence = sequenced ? &sequences_[index_of(cost.sequence)] : nullptr;
  if (sequenced) co_await sequence->served.reaches(sequence->length++);
  for (Exchange& exchange : exchanges) {
    if (!sequenced && exchange.exists()) exchange.place = exchange.line->length++;
  }
  for (std::size_t i = 0; i < exchanges.size(); ++i) {
    Exchange& exchange = exchanges[i];
    if (exchange.exists()) {
      if (sequenced) exchange.place = exchange.line->length++;
      co_await exchange.line->served.reaches(exchange.place);
      co_await clock_->delay(exchange.latency_s);
      co_await clock_->use(*exchange.links, exchange.bytes_s);
      exchange.line->served.add();
    }
    if (i == 0) co_await clock_->delay(cost.between_s);
  }
  if (sequenced) sequence->served.add();
  operation->arrived.add();
}

}  // namespace shoal::plan
