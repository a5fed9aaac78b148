// SPDX-License-Identifier: Apache-2.0
// A stage whose parts are hash functions of bytes: a wrong, an early or an overwritten border changes every result that
// follows from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/base/trace.hpp"
#include "shoal/pipeline/runner.hpp"

namespace shoal::pipeline::test {

using Words = std::vector<std::uint64_t>;

inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 31U)) * 0x9e3779b97f4a7c15U;
  return x ^ (x >> 29U);
}

/// One model of `parts` parts in one step.
struct HashModel {
  int parts = 1;
  std::uint64_t step = 0;
  std::size_t words = 64;  // of a border

  std::uint64_t key(Action::Kind kind, int part, std::size_t turn) const {
    const auto p = static_cast<std::uint64_t>(part);
    return mixed(((step * 1000 + turn) * 1000 + p) * 2 + (kind == Action::Kind::forward ? 0 : 1));
  }
  /// in: null for the first part. skipped: what the last part gets by a skip connection; null elsewhere.
  void forward(int part, std::size_t turn, const std::uint64_t* in, const std::uint64_t* skipped, std::uint64_t* out) const {
    const std::uint64_t k = key(Action::Kind::forward, part, turn);
    for (std::size_t i = 0; i < words; ++i) {
      out[i] = mixed(((in != nullptr ? in[i] : i) ^ k) + 5 * (skipped != nullptr ? skipped[i] : 0));
    }
  }
  /// in: null for the last part; kept: forward's `in`; skipped: as in forward, for the first part.
  void backward(int part, std::size_t turn, const std::uint64_t* in, const std::uint64_t* kept, const std::uint64_t* skipped,
                std::uint64_t* out) const {
    const std::uint64_t k = key(Action::Kind::backward, part, turn);
    for (std::size_t i = 0; i < words; ++i) {
      out[i] = mixed((in != nullptr ? in[i] : i) + 3 * (kept != nullptr ? kept[i] : i) +
                     5 * (skipped != nullptr ? skipped[i] : 0) + k);
    }
  }
  /// What a skip connection carries: activations, and their gradients, which follow from them.
  void skip_forward(std::size_t turn, std::uint64_t* out) const {
    const std::uint64_t k = key(Action::Kind::forward, parts, turn);
    for (std::size_t i = 0; i < words; ++i) out[i] = mixed(i + k);
  }
  void skip_backward(std::size_t turn, const std::uint64_t* skipped, std::uint64_t* out) const {
    const std::uint64_t k = key(Action::Kind::backward, parts, turn);
    for (std::size_t i = 0; i < words; ++i) out[i] = mixed(skipped[i] + k);
  }
};

/// What comes out of both ends for one turn.
struct Ends {
  std::uint64_t last = 0, first = 0;  // of the last part's activations; of the first part's gradients
  bool operator==(const Ends&) const = default;
};

inline std::uint64_t digest(const Words& words) {
  std::uint64_t sum = 0;
  for (const std::uint64_t word : words) sum = mixed(sum + word);
  return sum;
}

/// Computed part by part, without stages. skips: with a skip connection.
inline Ends expected(const HashModel& model, std::size_t turn, bool skips) {
  const auto parts = static_cast<std::size_t>(model.parts);
  std::vector<Words> x(parts + 1, Words(model.words));
  Words skipped(model.words), skipped_back(model.words);
  model.skip_forward(turn, skipped.data());
  model.skip_backward(turn, skipped.data(), skipped_back.data());
  const bool carries = skips && parts > 1;
  for (std::size_t p = 0; p < parts; ++p) {
    model.forward(static_cast<int>(p), turn, p == 0 ? nullptr : x[p].data(),
                  carries && p + 1 == parts ? skipped.data() : nullptr, x[p + 1].data());
  }
  Words in(model.words), out(model.words);
  for (std::size_t p = parts; p-- > 0; std::swap(in, out)) {
    model.backward(static_cast<int>(p), turn, p + 1 == parts ? nullptr : in.data(), p == 0 ? nullptr : x[p].data(),
                   carries && p == 0 ? skipped_back.data() : nullptr, out.data());
  }
  return {digest(x[parts]), digest(in)};
}

class HashingStage : public Stage {
 public:
  /// trains: false for an evaluation, in which nothing makes gradients.
  HashingStage(const HashModel& model, const ScheduleShape& shape, unsigned seed, bool trains = true)
      : model_(model), shape_(shape), random_(seed), trains_(trains), spare_(model.words) {}

  void forward(int part, std::size_t turn, const Borders& borders) override {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "forward");
    delay();
    const auto& [in, out, skip_in, skip_out] = borders;
    const int of_model = part_of_model(shape_, part);
    require(in.empty() == is_first(of_model) && out.empty() == is_last(of_model), "a border too many or too few");
    require(skip_in.empty() == !(skips() && is_last(of_model)), "a skip connection's activations");
    require(skip_out.empty() == !(skips() && (is_first(of_model) || (is_last(of_model) && trains_))), "a skip connection");
    kept_[{part, turn}] = words(in);
    model_.forward(of_model, turn, words(in), words(skip_in), out.empty() ? spare_.data() : words(out));
    if (out.empty()) ends_[turn].last = digest(spare_);
    if (skip_out.empty()) return;
    if (is_first(of_model)) {
      model_.skip_forward(turn, words(skip_out));
    } else {
      model_.skip_backward(turn, words(skip_in), words(skip_out));
    }
  }
  void backward(int part, std::size_t turn, const Borders& borders) override {
    const trace::Region region(trace::Level::steps, trace::Kind::phase, "backward");
    delay();
    const auto& [in, out, skip_in, skip_out] = borders;
    const int of_model = part_of_model(shape_, part);
    require(out.empty() == is_first(of_model) && in.empty() == is_last(of_model), "a border too many or too few");
    require(skip_in.empty() == !(skips() && is_first(of_model)) && skip_out.empty(), "a skip connection's gradients");
    model_.backward(of_model, turn, words(in), kept_.at({part, turn}), words(skip_in),
                    out.empty() ? spare_.data() : words(out));
    if (!in.empty()) std::memset(in.data(), 0xee, in.size());  // as a stage may
    if (out.empty()) ends_[turn].first = digest(spare_);
  }
  int first_unit(int part) const override { return 10 * part_of_model(shape_, part); }
  std::size_t micro_batch(std::size_t turn) const override { return 100 + turn; }

  /// By turn, where this stage has an end of the model.
  const std::map<std::size_t, Ends>& ends() const { return ends_; }

 protected:
  /// Sometimes with messages that go on meanwhile, sometimes without.
  virtual void delay() {
    switch (random_() % 4) {
      case 0: std::this_thread::sleep_for(std::chrono::microseconds(random_() % 1000)); break;
      case 1: pump(); break;
      default: break;
    }
  }

 private:
  bool skips() const { return shape_.skip && model_.parts > 1; }
  static bool is_first(int part) { return part == 0; }
  bool is_last(int part) const { return part + 1 == model_.parts; }
  static std::uint64_t* words(Span<std::byte> border) { return reinterpret_cast<std::uint64_t*>(border.data()); }

  HashModel model_;
  ScheduleShape shape_;
  std::mt19937 random_;
  bool trains_;
  std::map<std::pair<int, std::size_t>, const std::uint64_t*> kept_;
  std::map<std::size_t, Ends> ends_;
  Words spare_;
};

}  // namespace shoal::pipeline::test
