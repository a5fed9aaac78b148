// SPDX-License-Identifier: Apache-2.0
// A rank that computes a model in several parts: the parts, the order of their passes, and the memory between them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "shoal/device/memory.hpp"
#include "shoal/model/model.hpp"
#include "shoal/model/part.hpp"
#include "shoal/pipeline/schedule.hpp"
#include "zero/passes.hpp"

namespace shoal::zero::test {

/// What crosses the borders of parts: memory for each turn.
class Borders {
 public:
  Borders(std::size_t borders, std::size_t turns, std::size_t bytes)
      : turns_(turns),
        bytes_(bytes),
        memory_([&](Memory& memory) { all_ = memory.take<std::byte>(Kind::buffers, borders * turns * bytes, "borders"); }) {}
  /// Of the border before the part; null before the first part.
  void* before(std::size_t part, std::size_t turn) {
    return part == 0 ? nullptr : all_.data() + ((part - 1) * turns_ + turn) * bytes_;
  }
  /// Null after the last part.
  void* after(std::size_t part, std::size_t turn) {
    return (part + 1) * turns_ * bytes_ > all_.size() ? nullptr : before(part + 1, turn);
  }

 private:
  std::size_t turns_, bytes_;
  Span<std::byte> all_;
  device::DeviceMemory memory_;
};

/// The two borders of a part, and with a direct connection what passes the other parts by: from the first to the last one.
struct Flows {
  Borders outputs, gradients, skipped, skipped_gradients;
  std::size_t parts;
  bool skips;

  Flows(std::size_t count, bool direct, std::size_t turns, std::size_t bytes)
      : outputs(count - 1, turns, bytes),
        gradients(count - 1, turns, bytes),
        skipped(1, turns, bytes),
        skipped_gradients(1, turns, bytes),
        parts(count),
        skips(direct && count > 1) {}
  model::Flow forward(std::size_t part, std::size_t turn, bool trains = true) {
    model::Flow flow{outputs.before(part, turn), outputs.after(part, turn)};
    if (skips && part == 0) flow.skip_out = skipped.before(1, turn);
    if (skips && part + 1 == parts) flow.skip_in = skipped.before(1, turn);
    if (skips && part + 1 == parts && trains) flow.skip_out = skipped_gradients.before(1, turn);
    return flow;
  }
  model::Flow backward(std::size_t part, std::size_t turn) {
    model::Flow flow{gradients.after(part, turn), gradients.before(part, turn)};
    if (skips && part == 0) flow.skip_in = skipped_gradients.before(1, turn);
    return flow;
  }
};

/// units: of the model.
inline std::vector<model::Part> parts_of(std::size_t units, const std::vector<std::size_t>& balance,
                                         const std::vector<std::size_t>& slots, std::size_t most_whole) {
  std::vector<model::Part> parts;
  for (std::size_t k = 0, unit = 0; k < balance.size(); ++k) {
    const std::size_t begin = unit;
    unit = k + 1 == balance.size() ? units : unit + balance[k] + (k == 0 ? 1 : 0);
    parts.push_back({{begin, unit}, slots[k], std::min(slots[k], most_whole)});
  }
  return parts;
}

/// A turn keeps all activations if a slot for that is free.
inline StepOrder order_of(const std::vector<pipeline::Action>& actions, const std::vector<model::Part>& parts) {
  StepOrder order;
  std::vector<std::map<std::uint32_t, bool>> whole(parts.size());  // by part and turn, between forward and backward
  for (const pipeline::Action& action : actions) {
    auto& own = whole[action.part];
    const bool is_backward = action.kind == pipeline::Action::Kind::backward;
    if (!is_backward) {
      const auto in_use = std::count_if(own.begin(), own.end(), [](const auto& turn) { return turn.second; });
      own[action.turn] = static_cast<std::size_t>(in_use) < parts[action.part].whole_slots;
    }
    order.push_back({action.part, is_backward, own.at(action.turn)});
    if (is_backward) own.erase(action.turn);
  }
  return order;
}

}  // namespace shoal::zero::test
