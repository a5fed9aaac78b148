// SPDX-License-Identifier: Apache-2.0
#include "shoal/pipeline/timeline.hpp"

#include <algorithm>
#include <deque>
#include <numeric>

#include "shoal/base/error.hpp"
#include "shoal/pipeline/uses.hpp"

namespace shoal::pipeline {

namespace {

using enum Action::Kind;

/// The borders of one kind for one part of the model, or of the skip connection, in turn order. Times of those that are
/// known so far.
struct Channel {
  std::vector<double> made, arrived, released;
  std::vector<std::size_t> send_number;  // in its sender's pool, of each that was made
  std::size_t capacity = unlimited;
  static constexpr std::size_t unlimited = ~std::size_t{0};
};

/// The ends of the messages from one pool of send buffers, in the order in which their actions are in the list; below zero:
/// not known yet.
struct SendPool {
  std::vector<double> free_at;
  std::size_t capacity = Channel::unlimited;
};

class Simulation {
 public:
  Simulation(const Lists& lists, const ScheduleShape& shape, const TimelineCosts& costs, const std::vector<Buffers>* buffers)
      : lists_(lists), shape_(shape), costs_(costs), stages_(lists.size()), queued_(lists.size(), true) {
    require(lists.size() == static_cast<std::size_t>(shape.stages), lists.size(), " lists for ", shape.stages, " stages");
    require(costs.parts.size() == static_cast<std::size_t>(parts_of_model(shape)), "times of ", costs.parts.size(),
            " parts, but there are ", parts_of_model(shape));
    result_.actions.resize(lists.size());
    for (auto& channels : channels_) channels.resize(costs.parts.size());
    for (std::size_t s = 0; s < lists.size(); ++s) {
      stages_[s].uses = uses_of(lists[s], of_stage(s));
      if (buffers != nullptr) limit((*buffers)[s], s);
      work_.push_back(s);
    }
  }

  Timeline run() {
    while (!work_.empty()) {
      const std::size_t stage = work_.front();
      work_.pop_front();
      queued_[stage] = false;
      while (computes(stage)) {
      }
    }
    for (std::size_t s = 0; s < stages_.size(); ++s) {
      require(result_.actions[s].size() == lists_[s].size(), "stage ", s, " of ", stages_.size(), " waits for ever after ",
              result_.actions[s].size(), " of ", lists_[s].size(), " actions");
      result_.step = std::max(result_.step, stages_[s].clock);
    }
    std::stable_sort(result_.messages.begin(), result_.messages.end(),
                     [](const auto& a, const auto& b) { return a.time.end < b.time.end; });
    return std::move(result_);
  }

 private:
  struct Stage {
    std::vector<Use> uses;
    double clock = 0;
    std::array<SendPool, 4> pools;  // of activations and of gradients; those of the skip connection
  };

  ScheduleShape of_stage(std::size_t stage) const {
    ScheduleShape shape = shape_;
    shape.stage = static_cast<int>(stage);
    return shape;
  }
  bool alone() const { return shape_.stages == 1; }
  Channel& channel(const Border& border) {
    const std::size_t kind = border.kind == forward ? 0 : 1;
    return border.skip ? skips_[kind] : channels_[kind][static_cast<std::size_t>(border.part)];
  }
  SendPool& pool(std::size_t stage, const Border& border) {
    return stages_[stage].pools[(border.kind == forward ? 0U : 1U) + (border.skip ? 2U : 0U)];
  }

  void limit(const Buffers& buffers, std::size_t stage) {
    for (const Action::Kind kind : {forward, backward}) {
      for (int part = 0; part < shape_.parts; ++part) {
        const Border border{kind, part_of_model(of_stage(stage), part), 0};
        channel(border).capacity = buffers.received(border, static_cast<std::size_t>(part));
      }
      for (const bool skip : {false, true}) {
        const Border border{kind, kind == forward ? parts_of_model(shape_) - 1 : 0, 0, skip};
        pool(stage, border).capacity = buffers.sent(border);
        if (skip && static_cast<std::size_t>(receiver(shape_, border)) == stage) {
          channel(border).capacity = buffers.received(border, 0);
        }
      }
    }
  }

  void wake(std::size_t stage) {
    if (queued_[stage]) return;
    queued_[stage] = true;
    work_.push_back(stage);
  }

  /// Takes the stage's next action if that is possible.
  bool computes(std::size_t stage) {
    Stage& own = stages_[stage];
    std::vector<Interval>& done = result_.actions[stage];
    if (done.size() == lists_[stage].size()) return false;
    const Action& action = lists_[stage][done.size()];
    const Use& use = own.uses[done.size()];
    double begin = own.clock;
    for (const Border& border : use.reads) {
      const Channel& from = channel(border);
      if (from.arrived.size() <= border.turn) return false;
      begin = std::max(begin, from.arrived[border.turn]);
    }
    for (const Border& border : use.makes) {
      if (!has_room(stage, border, begin)) return false;
    }
    const PassTimes& times = costs_.parts[static_cast<std::size_t>(part_of_model(of_stage(stage), action.part))];
    own.clock = begin + (costs_.takes             ? costs_.takes(stage, done.size(), begin)
                         : action.kind == forward ? times.forward
                                                  : times.backward);
    done.push_back({begin, own.clock});
    for (const Border& border : use.releases) {
      channel(border).released.push_back(own.clock);
      send(border);
    }
    for (const Border& border : use.makes) {
      channel(border).send_number.push_back(pool(stage, border).free_at.size());
      pool(stage, border).free_at.push_back(-1);
      channel(border).made.push_back(own.clock);
      send(border);
    }
    return true;
  }

  /// Whether there is a buffer for what an action makes; then `begin` is not before that buffer is free.
  bool has_room(std::size_t stage, const Border& border, double& begin) {
    const Channel& to = channel(border);
    const SendPool& sends = pool(stage, border);
    const std::vector<double>& free_at = alone() ? to.released : sends.free_at;
    const std::size_t before = alone() ? to.made.size() : sends.free_at.size();
    const std::size_t capacity = alone() ? to.capacity : sends.capacity;
    if (before < capacity) return true;
    const std::size_t needed = before - capacity;
    if (capacity == 0 || free_at.size() <= needed || free_at[needed] < 0) return false;
    begin = std::max(begin, free_at[needed]);
    return true;
  }

  /// Sends what was made for this channel, as far as its receiver has buffers.
  void send(const Border& like) {
    Channel& to = channel(like);
    while (to.arrived.size() < to.made.size()) {
      const std::size_t turn = to.arrived.size();
      double begin = to.made[turn];
      if (alone()) {
        to.arrived.push_back(begin);
        continue;
      }
      if (turn >= to.capacity) {
        if (to.released.size() <= turn - to.capacity) return;
        begin = std::max(begin, to.released[turn - to.capacity]);
      }
      if (turn > 0) begin = std::max(begin, to.arrived.back());
      const Border border{like.kind, like.part, static_cast<std::uint32_t>(turn), like.skip};
      const auto from = static_cast<std::size_t>(sender(shape_, border));
      const double end = begin + costs_.message_of(border);
      to.arrived.push_back(end);
      result_.messages.push_back({border, {begin, end}});
      pool(from, border).free_at[to.send_number[turn]] = end;
      wake(from);
      wake(static_cast<std::size_t>(receiver(shape_, border)));
    }
  }

  const Lists& lists_;
  ScheduleShape shape_;
  const TimelineCosts& costs_;
  std::vector<Stage> stages_;
  std::array<std::vector<Channel>, 2> channels_;  // of activations and of gradients, by the part that receives
  std::array<Channel, 2> skips_;                  // of activations and of gradients of the skip connection
  std::deque<std::size_t> work_;                  // stages that may be able to go on
  std::vector<bool> queued_;
  Timeline result_;
};

}  // namespace

TimelineCosts equal_costs(const ScheduleShape& shape, double message) {
  return {std::vector<PassTimes>(static_cast<std::size_t>(parts_of_model(shape))), message};
}

double Timeline::idle_share(std::size_t stage) const {
  const double busy = std::accumulate(actions[stage].begin(), actions[stage].end(), 0.0,
                                      [](double sum, const Interval& action) { return sum + action.length(); });
  return step > 0 ? 1 - busy / step : 0;
}

double Timeline::idle_share() const {
  double sum = 0;
  for (std::size_t s = 0; s < actions.size(); ++s) sum += idle_share(s);
  return sum / static_cast<double>(actions.size());
}

Timeline timeline(const Lists& lists, const ScheduleShape& shape, const TimelineCosts& costs,
                  const std::vector<Buffers>* buffers) {
  return Simulation(lists, shape, costs, buffers).run();
}

}  // namespace shoal::pipeline
