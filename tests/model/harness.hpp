// SPDX-License-Identifier: Apache-2.0
// Runs a model alone: plans memory, and has a UnitAccess that stores whole units.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/base/philox.hpp"
#include "shoal/model/model.hpp"

namespace shoal::model::test {

/// Stores whole units, without other ranks, and fails if the model violates the contract of UnitAccess. While a gradient is
/// not complete, elements that the model has not written are NaN, and gaps are zero; a copy of a unit has none.
class WholeUnits final : public UnitAccess {
 public:
  WholeUnits(std::vector<UnitLayout> units, DType dtype, std::uint64_t seed) : units_(std::move(units)), dtype_(dtype) {
    for (const UnitLayout& unit : units_) {
      masters_.emplace_back(unit.elements);
      gradients_.emplace_back(unit.elements);
      rounded_.emplace_back(unit.elements);
      initialize(unit, seed, {0, unit.elements}, masters_.back());
    }
    held_.resize(units_.size());
    open_.resize(units_.size());
    round_masters();
  }

  /// Rounds the master parameters to the copy that the model reads. Call it after masters were changed.
  void round_masters() {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (std::size_t i = 0; i < masters_[u].size(); ++i) {
        rounded_[u][i] = dtype_ == DType::f16 ? f16(masters_[u][i]).bits : bf16(masters_[u][i]).bits;
      }
    }
  }

  /// Gives copies of units the parameters of their originals. Call it after masters were changed.
  void renew_copies() {
    for_each_copy([&](std::size_t copy, std::size_t original) { masters_[copy] = masters_[original]; });
    round_masters();
  }
  /// Adds the gradients of copies to those of their originals.
  void add_copies() {
    for_each_copy([&](std::size_t copy, std::size_t original) {
      for (std::size_t i = 0; i < gradients_[copy].size(); ++i) gradients_[original][i] += gradients_[copy][i];
    });
  }

  const std::vector<UnitLayout>& units() const { return units_; }
  std::vector<float>& master(std::size_t unit) { return masters_[unit]; }
  const std::vector<float>& whole_gradient(std::size_t unit) const { return gradients_[unit]; }
  const std::vector<int>& completed() const { return completed_; }
  void forget_completed() { completed_.clear(); }
  /// Number of units that are acquired and not released, and of gradients that are begun and not complete.
  int outstanding() const {
    int count = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) count += held_[u] + (open_[u] ? 1 : 0);
    return count;
  }

  /// Calls f(tensor, its master parameters, its gradient) for each tensor.
  void for_each(const std::function<void(const Parameter&, Span<float>, Span<const float>)>& f) {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      for (const Parameter& p : units_[u].parameters) {
        f(p, Span<float>(masters_[u]).subspan(p.offset, p.elements()),
          Span<const float>(gradients_[u]).subspan(p.offset, p.elements()));
      }
    }
  }

  const void* acquire(int unit) override {
    const auto u = static_cast<std::size_t>(unit);
    ++held_[u];
    return dtype_ == DType::f32 ? static_cast<const void*>(masters_[u].data()) : rounded_[u].data();
  }
  void release(int unit) override {
    require(held_[static_cast<std::size_t>(unit)]-- > 0, "unit ", unit, " is released more often than acquired");
  }
  float* gradient(int unit) override {
    const auto u = static_cast<std::size_t>(unit);
    if (!open_[u]) {
      open_[u] = true;
      if (units_[u].copy_of) gradients_[u].assign(units_[u].elements, std::numeric_limits<float>::quiet_NaN());
      for (const Parameter& p : units_[u].parameters) {
        std::fill_n(gradients_[u].begin() + static_cast<std::ptrdiff_t>(p.offset), p.elements(),
                    std::numeric_limits<float>::quiet_NaN());
      }
    }
    return gradients_[u].data();
  }
  void gradient_complete(int unit) override {
    const auto u = static_cast<std::size_t>(unit);
    require(open_[u], "unit ", unit, " completes a gradient that it has not begun");
    open_[u] = false;
    completed_.push_back(unit);
  }

 private:
  template <typename Use>
  void for_each_copy(const Use& use) const {
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (units_[u].copy_of) use(u, static_cast<std::size_t>(*units_[u].copy_of));
    }
  }

  std::vector<UnitLayout> units_;
  DType dtype_;
  std::vector<std::vector<float>> masters_, gradients_;
  std::vector<std::vector<std::uint16_t>> rounded_;  // bf16 or f16
  std::vector<int> held_, completed_;
  std::vector<bool> open_;
};

/// Records which units are used together.
class Uses : public UnitAccess {
 public:
  Uses(const ModelOptions& options, DType dtype) : whole(layout(options), dtype, 1) {}
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

  WholeUnits whole;
  UseOrder uses;  ///< the units of each use, in the order of their first acquisition

 private:
  int held_ = 0;
};

/// A model and its memory, which was planned by constructing the model with a Memory that only counts.
class Instance {
 public:
  explicit Instance(const ModelOptions& options, const Capacity& capacity, DType dtype = DType::f32, std::uint64_t seed = 1)
      : access(layout(options), dtype, seed) {
    make(options, dtype, capacity, seed, counting, access);
    memory = std::make_unique<Memory>(counting.taken());
    model = make(options, dtype, capacity, seed, *memory, access);
  }

  double forward(const MicroBatch& batch, float scale = 1) const {
    double loss = 0;
    model->forward(0, batch, {}, scale, &loss);
    return loss;
  }
  double evaluate(const MicroBatch& batch) const {
    double loss = 0;
    model->evaluate(batch, {}, &loss);
    return loss;
  }
  double forward_backward(const MicroBatch& batch, float scale = 1) const {
    const double loss = forward(batch, scale);
    model->backward(0, {});
    return loss;
  }

  WholeUnits access;
  Memory counting;
  std::unique_ptr<Memory> memory;
  std::unique_ptr<Model> model;
};

/// Random tokens and targets.
struct RandomBatch {
  RandomBatch(std::size_t sequences, std::size_t length, std::size_t vocabulary, std::uint64_t seed = 7)
      : inputs(sequences * length), targets(sequences * length) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Philox4 bits = philox(seed, {static_cast<std::uint32_t>(i), 0, 0, 0});
      inputs[i] = static_cast<std::int32_t>(bits[0] % vocabulary);
      targets[i] = static_cast<std::int32_t>(bits[1] % vocabulary);
    }
    batch = {sequences, length, inputs, targets, 0, 0};
  }
  /// Sequences first .. first + count - 1, with their indices in the global batch.
  MicroBatch part(std::size_t first, std::size_t count) const {
    MicroBatch cut = batch;
    cut.sequences = count;
    cut.inputs = cut.inputs.subspan(first * cut.length, count * cut.length);
    cut.targets = cut.targets.subspan(first * cut.length, count * cut.length);
    cut.first_sample += static_cast<std::uint32_t>(first);
    return cut;
  }
  std::vector<std::int32_t> inputs, targets;
  MicroBatch batch;
};

/// A GPT that is small enough for finite differences.
inline ModelOptions tiny_gpt() {
  ModelOptions o;
  o.n_layer = 2;
  o.n_head = 2;
  o.n_embd = 12;
  o.block_size = 7;
  o.vocab_size = 19;
  return o;
}

inline ModelOptions tiny_mlp() {
  ModelOptions o = tiny_gpt();
  o.kind = ModelKind::mlp;
  o.n_embd = 5;
  o.n_inner = 21;
  return o;
}

/// With a direct connection, and dropout before it.
inline ModelOptions direct_gpt() {
  ModelOptions o = tiny_gpt();
  o.direct = true;
  o.dropout = 0.1;
  return o;
}

inline std::vector<ModelOptions> all_models() {
  ModelOptions untied = tiny_gpt(), dropped = tiny_gpt();
  untied.tied = false;
  dropped.dropout = 0.1;
  return {tiny_gpt(), untied, dropped, direct_gpt(), tiny_mlp()};
}

/// Sets parameters to values so large that every tensor matters: with GPT-2's initial values attention is almost uniform.
/// The hidden layers with ReLU get biases of 2 or -2, so that few of its inputs are near 0, where it has no derivative.
inline void scramble(WholeUnits& access) {
  std::uint32_t tensor = 0;
  access.for_each([&](const Parameter& p, Span<float> values, Span<const float>) {
    const float deviation = p.is_vector() ? 0.1F : 0.3F;
    const float away = p.is_vector() && p.name.starts_with("hidden.") ? 2.0F : 0.0F;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Philox4 bits = philox(99, {static_cast<std::uint32_t>(i), tensor, 0, 0});
      const float shift = p.initial_constant + (i % 2 == 0 ? away : -away);
      values[i] = shift + deviation * static_cast<float>(box_muller(bits[0], bits[1])[0]);
    }
    ++tensor;
  });
  access.round_masters();
}

inline double norm(Span<const float> x) {
  double sum = 0;
  for (const float v : x) sum += static_cast<double>(v) * static_cast<double>(v);
  return std::sqrt(sum);
}

struct Distance {
  std::string what;
  double relative;
};

/// Distances between a model in the given type and one in fp32 with the same parameters: the relative difference of the
/// losses, and, for the gradient of each tensor, the norm of the difference divided by the norm.
inline std::vector<Distance> distances(const ModelOptions& options, DType dtype, const RandomBatch& data, float scale = 1) {
  Instance narrow(options, {4, 7}, dtype), wide(options, {4, 7});
  scramble(narrow.access);
  scramble(wide.access);
  for (std::size_t u = 0; u < wide.access.units().size(); ++u) {
    for (float& p : wide.access.master(u)) p = dispatch(dtype, [&]<typename T>(T) { return static_cast<float>(T(p)); });
  }
  const double loss = wide.forward_backward(data.batch, scale), near = narrow.forward_backward(data.batch, scale);
  std::vector<Distance> found = {{"loss", std::abs(near - loss) / loss}};
  for (std::size_t u = 0; u < wide.access.units().size(); ++u) {
    for (const Parameter& p : wide.access.units()[u].parameters) {
      const Span<const float> exact = Span<const float>(wide.access.whole_gradient(u)).subspan(p.offset, p.elements());
      const Span<const float> rounded = Span<const float>(narrow.access.whole_gradient(u)).subspan(p.offset, p.elements());
      std::vector<float> difference(exact.begin(), exact.end());
      for (std::size_t i = 0; i < difference.size(); ++i) difference[i] -= rounded[i];
      found.push_back({p.name, norm(difference) / norm(exact)});
    }
  }
  return found;
}

}  // namespace shoal::model::test
