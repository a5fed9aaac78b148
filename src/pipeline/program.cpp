// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/program.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "shoal/base/error.hpp"
#include "shoal/pipeline/timeline.hpp"
#include "shoal/pipeline/uses.hpp"

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

auto key_of(const Border& border) { return std::tuple(border.kind, border.part, border.turn, border.skip); }
using Key = decltype(key_of({}));

class Maker {
 public:
  Maker(const std::vector<Action>& list, const ScheduleShape& shape, const Buffers& buffers)
      : shape_(shape), buffers_(buffers), uses_(uses_of(list, shape)) {
    program_.shape = shape;
    for (std::size_t i = 0; i < list.size(); ++i) add(list[i], uses_[i]);
  }

  /// Receives and sends at their first possible positions.
  Program early() {
    std::vector<std::vector<Call>> receives(program_.steps.size() + 1), sends(program_.steps.size() + 1);
    for (const auto& [key, call] : calls_) (call.sends ? sends : receives)[possible_from(call)].push_back(call);
    for (std::size_t i = 0; i < receives.size(); ++i) {
      // Receives first, so that messages find their buffers; those that are needed next before the others.
      std::sort(receives[i].begin(), receives[i].end(),
                [&](const Call& a, const Call& b) { return read_at_.at(key_of(a.border)) < read_at_.at(key_of(b.border)); });
      for (const auto* const calls : {&receives[i], &sends[i]}) {
        for (const Call& call : *calls) at(i).push_back(call);
      }
    }
    return std::move(program_);
  }

  Program in_order_of(const std::vector<TimelineMessage>& messages) {
    std::size_t position = 0;
    for (const TimelineMessage& message : messages) {
      const auto found = calls_.find(key_of(message.border));
      if (found == calls_.end()) continue;
      position = std::max(position, possible_from(found->second));
      at(position).push_back(found->second);
    }
    return std::move(program_);
  }

 private:
  bool alone() const { return shape_.stages == 1; }
  std::vector<Call>& at(std::size_t position) {
    return position < program_.steps.size() ? program_.steps[position].before : program_.after;
  }

  Place received(const Border& border) const {
    const std::size_t part = part_of_stage(shape_, border), count = buffers_.received(border, part);
    require(count > 0, "no buffer for ", words_of(border));
    return {false, border.kind, part, border.turn % count, border.skip};
  }
  Place sent(const Border& border) {
    const std::size_t count = buffers_.sent(border);
    require(count > 0, "no send buffer for ", words_of(border));
    std::size_t& number = sent_[(border.kind == forward ? 0U : 1U) + (border.skip ? 2U : 0U)];
    return {true, border.kind, 0, number++ % count, border.skip};
  }

  void add(const Action& action, const Use& use) {
    const std::size_t position = program_.steps.size();
    Step& step = program_.steps.emplace_back(Step{{}, action, {}, {}, {}, {}});
    for (const Border& border : use.reads) {
      const Place place = received(border);
      (border.skip ? step.skip_in : step.in) = place;
      read_at_[key_of(border)] = position;
      if (!alone()) calls_[key_of(border)] = {border, false, sender(shape_, border), place};
    }
    for (const Border& border : use.releases) free_from_[key_of(border)] = position + 1;
    for (const Border& border : use.makes) {
      const Place place = alone() ? received(border) : sent(border);
      (border.skip ? step.skip_out : step.out) = place;
      if (alone()) continue;
      made_at_[key_of(border)] = position;
      calls_[key_of(border)] = {border, true, receiver(shape_, border), place};
    }
  }

  /// The number of actions that must come before the call.
  std::size_t possible_from(const Call& call) const {
    if (call.sends) return made_at_.at(key_of(call.border)) + 1;
    const std::size_t count = buffers_.received(call.border, call.place.part);
    if (call.border.turn < count) return 0;
    Border before = call.border;  // it has used the buffer
    before.turn -= static_cast<std::uint32_t>(count);
    return free_from_.at(key_of(before));
  }

  ScheduleShape shape_;
  const Buffers& buffers_;
  std::vector<Use> uses_;
  Program program_;
  std::map<Key, Call> calls_;
  std::map<Key, std::size_t> made_at_, read_at_, free_from_;
  std::array<std::size_t, 4> sent_{};  // of activations and of gradients; those of the skip connection
};

}  // namespace

Program program_of(const Lists& lists, const ScheduleShape& shape, const std::vector<Buffers>& buffers, Order order) {
  const auto stage = static_cast<std::size_t>(shape.stage);
  const Timeline bounded = timeline(lists, shape, equal_costs(shape), &buffers);
  Maker maker(lists.at(stage), shape, buffers.at(stage));
  return order == Order::early ? maker.early() : maker.in_order_of(bounded.messages);
}

}  // namespace shoal::pipeline
