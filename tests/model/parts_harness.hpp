// SPDX-License-Identifier: Apache-2.0
// Runs a model that is cut into parts, and the same model as a whole.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>

#include "harness.hpp"

namespace shoal::model::test {

constexpr std::size_t layers = 5, turns = 4;

/// Records each unit's gradients, too, turn by turn.
class Recording final : public Uses {
 public:
  Recording(const ModelOptions& options, DType dtype) : Uses(options, dtype), gradients(whole.units().size()) {
    scramble(whole);
    whole.renew_copies();
  }
  float* gradient(int unit) override { return whole.gradient(unit); }
  void gradient_complete(int unit) override {
    whole.gradient_complete(unit);
    std::vector<std::uint32_t>& bits = gradients[static_cast<std::size_t>(unit)].emplace_back();
    for (const float g : whole.whole_gradient(static_cast<std::size_t>(unit)))
      bits.push_back(std::bit_cast<std::uint32_t>(g));
  }

  std::vector<std::vector<std::vector<std::uint32_t>>> gradients;  // by unit, by turn
};

/// Micro-batches of one step; the third one is smaller.
inline std::vector<RandomBatch> batches_of(const ModelOptions& options) {
  std::vector<RandomBatch> batches;
  batches.reserve(turns);
  for (std::size_t turn = 0; turn < turns; ++turn) {
    const bool small = turn == 2;
    RandomBatch& data = batches.emplace_back(small ? 2 : 3, small ? 5 : 7, options.vocab_size, 7 + turn);
    data.batch.step = 4;
    data.batch.first_sample = static_cast<std::uint32_t>(3 * turn);
  }
  return batches;
}

struct Results {
  std::vector<double> losses;
  double evaluated = 0;
  std::vector<std::vector<std::vector<std::uint32_t>>> gradients;
  bool operator==(const Results&) const = default;
};

/// The whole model, one micro-batch after the other.
inline Results whole(const ModelOptions& options, DType dtype) {
  Recording access(options, dtype);
  Capacity capacity{3, 7};
  Memory counting;
  make(options, dtype, capacity, 1, counting, access);
  Memory memory(counting.taken());
  const auto model = make(options, dtype, capacity, 1, memory, access);
  Results results;
  for (const RandomBatch& data : batches_of(options)) {
    model->forward(0, data.batch, {}, 0.5F, &results.losses.emplace_back());
    model->backward(0, {});
  }
  model->evaluate(batches_of(options).back().batch, {}, &results.evaluated);
  results.gradients = access.gradients;
  return results;
}

struct Action {
  bool forward;
  std::size_t part, turn;
};

/// All turns forward, then all backward.
inline std::vector<Action> gpipe(std::size_t parts) {
  std::vector<Action> actions;
  for (std::size_t part = 0; part < parts; ++part) {
    for (std::size_t turn = 0; turn < turns; ++turn) actions.push_back({true, part, turn});
  }
  for (std::size_t part = parts; part-- > 0;) {
    for (std::size_t turn = 0; turn < turns; ++turn) actions.push_back({false, part, turn});
  }
  return actions;
}

/// Each part starts up to parts - part turns, then goes backward and forward in alternation; the parts take turns, each when
/// what it needs is there.
inline std::vector<Action> one_f_one_b(std::size_t parts) {
  std::vector<std::deque<Action>> lists(parts);
  std::vector<std::size_t> forward(parts, 0), backward(parts, 0);
  for (std::size_t part = 0; part < parts; ++part) {
    const std::size_t ahead = std::min(parts - part, turns);
    for (std::size_t turn = 0; turn < ahead; ++turn) lists[part].push_back({true, part, turn});
    for (std::size_t turn = 0; turn < turns; ++turn) {
      lists[part].push_back({false, part, turn});
      if (turn + ahead < turns) lists[part].push_back({true, part, turn + ahead});
    }
  }
  std::vector<Action> actions;
  while (actions.size() < 2 * parts * turns) {
    for (std::size_t part = 0; part < parts; ++part) {
      if (lists[part].empty()) continue;
      const Action next = lists[part].front();
      const bool ready =
          next.forward ? part == 0 || forward[part - 1] > next.turn : part + 1 == parts || backward[part + 1] > next.turn;
      if (!ready) continue;
      ++(next.forward ? forward : backward)[part];
      actions.push_back(next);
      lists[part].pop_front();
    }
  }
  return actions;
}

inline std::size_t slots_of(const std::vector<Action>& actions, std::size_t part) {
  std::size_t open = 0, most = 0;
  for (const Action& action : actions) {
    if (action.part != part) continue;
    open = action.forward ? open + 1 : open - 1;
    most = std::max(most, open);
  }
  return most;
}

/// Memory for what crosses a border, aligned as Memory aligns. It has no values but NaN before it is written.
class Border {
 public:
  explicit Border(std::size_t bytes) : lines_((bytes + sizeof(Line) - 1) / sizeof(Line)) { forget(); }
  void forget() { std::fill(lines_.begin(), lines_.end(), nans()); }
  void* data() { return lines_.data(); }

 private:
  struct alignas(64) Line {
    std::array<std::uint32_t, 16> words;
  };
  static Line nans() {
    Line line{};
    line.words.fill(0xFFFFFFFFU);
    return line;
  }
  std::vector<Line> lines_;
};

enum class Gradients { in_place, apart };

/// A model in parts, which all run here. What crosses borders is copied as if it were sent; the sender's copy is forgotten
/// at once, and the receiver's after its backward pass.
class Cut {
 public:
  Cut(const ModelOptions& options, DType dtype, const std::vector<std::size_t>& balance, std::vector<Action> actions,
      std::int64_t interval, std::size_t most_whole)
      : options_(options), dtype_(dtype), actions_(std::move(actions)), access_(options, dtype) {
    for (std::size_t k = 0, unit = 0; k < balance.size(); ++k) {
      const std::size_t first = unit;
      unit = k + 1 == balance.size() ? layout(options).size() : unit + balance[k] + (k == 0 ? 1 : 0);
      const std::size_t slots = slots_of(actions_, k);
      Capacity capacity{3, 7, true, false, interval};
      capacity.micro_batches = turns;
      capacity.part = {{first, unit}, slots, std::min(slots, most_whole)};
      Memory counting;
      make(options, dtype, capacity, 1, counting, access_);
      memories_.push_back(std::make_unique<Memory>(counting.taken()));
      models_.push_back(make(options, dtype, capacity, 1, *memories_.back(), access_));
      EXPECT_EQ(memories_.back()->taken(), counting.taken());
      orders_.push_back(use_orders(options, capacity));
      parts_.push_back(capacity.part);
      turn_in_slot_.emplace_back(slots);
    }
  }

  Results run(Gradients gradients) {
    const std::vector<RandomBatch> batches = batches_of(options_);
    Results results;
    results.losses.resize(turns);
    outputs_ = gradients_ =
        std::vector<std::vector<Border>>(models_.size(), std::vector<Border>(turns, Border(border_bytes())));
    skipped_ = skipped_gradients_ = std::vector<Border>(turns, Border(border_bytes()));
    for (const Action& action : actions_) {
      access_.uses.clear();
      if (action.forward) {
        forward(action, batches[action.turn].batch, results.losses[action.turn]);
      } else {
        backward(action, gradients);
      }
    }
    for (std::size_t k = 0; k < models_.size(); ++k) {
      access_.uses.clear();
      Flow flow = ends(k, outputs_, turns - 1);
      if (skips() && k == 0) flow.skip_out = skipped_[turns - 1].data();
      if (skips() && k + 1 == models_.size()) flow.skip_in = skipped_[turns - 1].data();
      models_[k]->evaluate(batches.back().batch, flow, &results.evaluated);
      EXPECT_EQ(access_.uses, orders_[k].forward) << "evaluation of part " << k;
    }
    EXPECT_EQ(access_.whole.outstanding(), 0);
    results.gradients = access_.gradients;
    return results;
  }

 private:
  bool skips() const { return options_.has_skip_connection() && models_.size() > 1; }
  std::size_t border_bytes() const { return models_.front()->border_elements({3, 7, {}, {}, 0, 0}) * size_of(dtype_); }
  /// borders[k][turn]: what part k receives, or in the last place what nobody does.
  Flow ends(std::size_t k, std::vector<std::vector<Border>>& borders, std::size_t turn) {
    return {k == 0 ? nullptr : borders[k - 1][turn].data(), k + 1 == models_.size() ? nullptr : borders[k][turn].data()};
  }

  void forward(const Action& action, const MicroBatch& batch, double& loss) {
    const std::size_t k = action.part;
    auto& slots = turn_in_slot_[k];
    const auto slot = static_cast<std::size_t>(std::find(slots.begin(), slots.end(), std::nullopt) - slots.begin());
    slots[slot] = action.turn;
    Flow flow = ends(k, outputs_, action.turn);
    Border sent(border_bytes());
    void* const received = flow.out;
    if (received != nullptr) flow.out = sent.data();
    const bool first = skips() && k == 0, last = skips() && k + 1 == models_.size();
    if (first) flow.skip_out = skipped_[action.turn].data();
    if (last) flow.skip_in = skipped_[action.turn].data(), flow.skip_out = skipped_gradients_[action.turn].data();
    models_[k]->forward(slot, batch, flow, 0.5F, &loss);
    if (last) skipped_[action.turn].forget();
    if (received != nullptr) std::memcpy(received, sent.data(), border_bytes());
    sent.forget();
    EXPECT_EQ(access_.uses, orders_[k].forward) << "part " << k;
  }

  void backward(const Action& action, Gradients gradients) {
    const std::size_t k = action.part;
    auto& slots = turn_in_slot_[k];
    const auto slot = static_cast<std::size_t>(std::find(slots.begin(), slots.end(), action.turn) - slots.begin());
    slots[slot].reset();
    Border* const in = k + 1 == models_.size() ? nullptr : &gradients_[k][action.turn];
    Border* const out = k == 0 ? nullptr : &gradients_[k - 1][action.turn];
    const bool in_place = gradients == Gradients::in_place && in != nullptr && out != nullptr;
    Flow flow{in == nullptr ? nullptr : in->data(), out == nullptr ? nullptr : in_place ? in->data() : out->data()};
    if (skips() && k == 0) flow.skip_in = skipped_gradients_[action.turn].data();
    models_[k]->backward(slot, flow);
    if (in_place) std::memcpy(out->data(), in->data(), border_bytes());
    if (in != nullptr) in->forget();
    if (k > 0) outputs_[k - 1][action.turn].forget();
    const bool whole = slot < parts_[k].whole_slots;
    EXPECT_EQ(access_.uses, whole ? orders_[k].backward : orders_[k].recomputing_backward) << "part " << k;
  }

  ModelOptions options_;
  DType dtype_;
  std::vector<Action> actions_;
  Recording access_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::unique_ptr<Model>> models_;
  std::vector<UseOrders> orders_;
  std::vector<Part> parts_;
  std::vector<std::vector<std::optional<std::size_t>>> turn_in_slot_;  // by part, by slot
  std::vector<std::vector<Border>> outputs_, gradients_;               // by part before the border, by turn
  std::vector<Border> skipped_, skipped_gradients_;                    // what a skip connection carries, by turn
};

}  // namespace shoal::model::test
