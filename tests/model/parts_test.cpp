// SPDX-License-Identifier: Apache-2.0
// A model that is cut into parts, with several micro-batches between forward and backward: losses and gradients have the
// bits of the whole model with one slot, in any order of passes and however much each slot keeps.
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>

#include "harness.hpp"
#include "shoal/model/costs.hpp"

namespace shoal::model::test {
namespace {

const auto* const kernels_environment = ::testing::AddGlobalTestEnvironment(new KernelsEnvironment);

constexpr std::size_t layers = 5, turns = 4;

/// Records the units of each use, and each unit's gradients, turn by turn.
class Recording final : public UnitAccess {
 public:
  Recording(const ModelOptions& options, DType dtype) : whole(layout(options), dtype, 1), gradients(whole.units().size()) {
    scramble(whole);
  }
  const void* acquire(int unit) override {
    if (held_++ == 0) uses.emplace_back();
    std::vector<int>& units = uses.back();
    if (std::find(units.begin(), units.end(), unit) == units.end()) units.push_back(unit);
    return whole.acquire(unit);
  }
  void release(int unit) override {
    --held_;
    whole.release(unit);
  }
  float* gradient(int unit) override { return whole.gradient(unit); }
  void gradient_complete(int unit) override {
    whole.gradient_complete(unit);
    std::vector<std::uint32_t>& bits = gradients[static_cast<std::size_t>(unit)].emplace_back();
    for (const float g : whole.whole_gradient(static_cast<std::size_t>(unit)))
      bits.push_back(std::bit_cast<std::uint32_t>(g));
  }

  WholeUnits whole;
  UseOrder uses;
  std::vector<std::vector<std::vector<std::uint32_t>>> gradients;  // by unit, by turn

 private:
  int held_ = 0;
};

/// Micro-batches of one step; the third one is smaller.
std::vector<RandomBatch> batches_of(const ModelOptions& options) {
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
Results whole(const ModelOptions& options, DType dtype) {
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
std::vector<Action> gpipe(std::size_t parts) {
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
std::vector<Action> one_f_one_b(std::size_t parts) {
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

std::size_t slots_of(const std::vector<Action>& actions, std::size_t part) {
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
      unit += balance[k] + (k == 0 ? 1 : 0) + (k + 1 == balance.size() ? 1 : 0);
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
      models_[k]->evaluate(batches.back().batch, ends(k, outputs_, turns - 1), &results.evaluated);
      EXPECT_EQ(access_.uses, orders_[k].forward) << "evaluation of part " << k;
    }
    EXPECT_EQ(access_.whole.outstanding(), 0);
    results.gradients = access_.gradients;
    return results;
  }

 private:
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
    models_[k]->forward(slot, batch, flow, 0.5F, &loss);
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
};

std::vector<ModelOptions> models() {
  ModelOptions gpt = tiny_gpt(), mlp = tiny_mlp();
  gpt.tied = false;
  gpt.dropout = 0.2;
  gpt.n_layer = mlp.n_layer = layers;
  return {gpt, mlp};
}

TEST(Parts, HaveTheBitsOfTheWholeModel) {
  for (const ModelOptions& options : models()) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Results expected = whole(options, dtype);
      for (const std::vector<std::size_t>& balance : {std::vector<std::size_t>{5}, {3, 2}, {1, 1, 3}}) {
        for (const bool all_forward_first : {true, false}) {
          const std::vector<Action> actions = all_forward_first ? gpipe(balance.size()) : one_f_one_b(balance.size());
          for (const std::int64_t interval : {0, 1, 2}) {
            for (const std::size_t most_whole : {std::size_t{0}, std::size_t{1}, turns}) {
              const auto gradients = interval == 1 ? Gradients::in_place : Gradients::apart;
              EXPECT_TRUE(Cut(options, dtype, balance, actions, interval, most_whole).run(gradients) == expected)
                  << name_of(options.kind) << ' ' << name_of(dtype) << ", " << balance.size() << " parts, "
                  << (all_forward_first ? "gpipe" : "1f1b") << ", interval " << interval << ", whole slots " << most_whole;
            }
          }
        }
      }
    }
  }
}

/// Bytes of activations that a part with these units takes.
std::size_t activations(const ModelOptions& options, const Part& part, std::int64_t interval = 0) {
  Recording access(options, DType::f32);
  Capacity capacity{3, 7, true, false, interval};
  capacity.part = part;
  Memory counting;
  make(options, DType::f32, capacity, 1, counting, access);
  return counting.taken()[Kind::activations];
}

/// The middle part of a GPT has the blocks 1 to 4 of the units 0 to 6; its first input crosses the border.
TEST(Parts, TakeMemoryForWhatTheirSlotsKeep) {
  const ModelOptions options = models().front();
  const std::vector<UnitCost> costs = model::costs(options, DType::f32, {3, 7});
  const std::size_t stream = costs[2].input_bytes, block = costs[2].input_bytes + costs[2].kept_bytes;
  const auto middle = [&](std::size_t slots, std::size_t whole, std::int64_t interval = 0) {
    return activations(options, {{1, 5}, slots, whole}, interval);
  };
  EXPECT_EQ(middle(3, 3) - middle(2, 2), 4 * block - stream);
  EXPECT_EQ(middle(3, 3, 2) - middle(2, 2, 2), 2 * block) << "two blocks, and the input of the second segment";
  EXPECT_EQ(middle(1, 0), middle(1, 1)) << "one slot keeps what it computes again";
  EXPECT_EQ(middle(3, 0), middle(1, 0)) << "their inputs cross the border";
  EXPECT_EQ(middle(3, 0, 2) - middle(2, 0, 2), stream) << "the input of the second segment";
  EXPECT_EQ(middle(3, 1), middle(2, 2));

  const auto extra = [&](std::size_t slots, Range units, Range without) {
    return activations(options, {units, slots, slots}) - activations(options, {without, slots, slots});
  };
  const std::size_t tokens = round_up(3 * 7 * sizeof(std::int32_t), 64);  // inputs, or targets
  for (const std::size_t slots : {1U, 3U}) {
    EXPECT_EQ(extra(slots, {2, 7}, {2, 6}), costs.back().kept_bytes + stream + slots * (stream + tokens))
        << "the head: its input is the output of the last block";
    EXPECT_EQ(extra(slots, {0, 5}, {1, 5}), stream + slots * (stream + tokens)) << "the embedding";
  }
}

/// The message of the error with which a part of a model is refused.
std::string refusal(const ModelOptions& options, const Part& part) {
  try {
    activations(options, part);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(Parts, ThatCannotBeAreRefused) {
  ModelOptions tied = models().front();
  tied.tied = true;
  EXPECT_EQ(refusal(tied, {{0, 7}, 1, 1}), "");
  EXPECT_NE(refusal(tied, {{0, 4}, 1, 1}).find("model.tied = true in a part of a model"), std::string::npos);
  EXPECT_NE(refusal(tied, {{4, 7}, 1, 1}).find("model.tied = true in a part of a model"), std::string::npos);
  EXPECT_NE(refusal(tied, {{0, 7}, 2, 2}).find("model.tied = true with 2 micro-batches"), std::string::npos);
  for (const ModelOptions& options : models()) {
    EXPECT_NE(refusal(options, {{0, 1}, 1, 1}).find("the units 0 to 0 has no layer"), std::string::npos);
    EXPECT_NE(refusal(options, {{6, 7}, 1, 1}).find("the units 6 to 6 has no layer"), std::string::npos);
    EXPECT_NE(refusal(options, {{4, 8}, 1, 1}).find("a model with 7 units"), std::string::npos);
    EXPECT_NE(refusal(options, {{4, 7}, 1, 2}).find("1 slots, of which 2"), std::string::npos);
  }
}

TEST(Parts, NeedTheBordersThatTheyHave) {
  for (const ModelOptions& options : models()) {
    Capacity capacity{3, 7};
    capacity.part.units = {2, 4};
    Recording access(options, DType::f32);
    Memory counting;
    make(options, DType::f32, capacity, 1, counting, access);
    Memory memory(counting.taken());
    const auto part = make(options, DType::f32, capacity, 1, memory, access);
    const RandomBatch data(3, 7, options.vocab_size);
    Border border(part->border_elements(data.batch) * sizeof(float));
    std::vector<float> logits(3 * options.vocab_size);
    EXPECT_THROW(part->forward(0, data.batch, {}, 1, nullptr), Error);
    EXPECT_THROW(part->forward(0, data.batch, {border.data(), nullptr}, 1, nullptr), Error);
    EXPECT_THROW(part->evaluate(data.batch, {nullptr, border.data()}, nullptr), Error);
    EXPECT_THROW(part->backward(0, {border.data(), nullptr}), Error);
    EXPECT_THROW(part->logits(data.batch, logits), Error);
    EXPECT_EQ(part->decoder(), nullptr);
    Instance whole(options, {3, 7});
    EXPECT_THROW(whole.model->forward(0, data.batch, {nullptr, border.data()}, 1, nullptr), Error);
  }
}

}  // namespace
}  // namespace shoal::model::test
