// SPDX-License-Identifier: Apache-2.0
// Parameters, master parameters and moments of all units on this rank, and the optimizer's step over them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shoal/base/memory.hpp"
#include "shoal/base/state.hpp"
#include "shoal/model/unit.hpp"
#include "shoal/optim/optimizer.hpp"
#include "shoal/zero/gradients.hpp"

namespace shoal::zero {

class States {
 public:
  /// moments: names of the optimizer's states; none where nothing is trained.
  States(const std::vector<model::UnitLayout>& units, DType dtype, const std::vector<std::string>& moments,
         const Placement& placement, Memory& memory);

  /// The unit's parameters in the model's dtype, as a flat buffer.
  const void* parameters(int unit) const;
  /// The same in fp32: the masters; where the model computes in fp32, the parameters themselves.
  Span<float> master(int unit) const;

  /// Random initial values: each rank draws its shards and gathers the rest. Moments are zero.
  void initialize(std::uint64_t seed);
  /// Makes everything that is derived from the masters (the rounded parameters) anew, after they were written to.
  void refresh();

  /// One optimizer step of the unit with this gradient. decay_1d: weight decay on biases and norms too.
  void step(int unit, Span<const float> gradient, const optim::Optimizer& optimizer, const optim::Optimizer::Step& step,
            bool decay_1d);

  /// The first unit whose parameters hold a NaN or an infinity; -1: none. Reads everything: for messages about a broken run.
  int first_not_finite() const;

  enum class Which { own, whole };
  /// What a checkpoint lists. own: this rank's shards, so that the ranks write every element once; whole: everything this
  /// rank keeps, for reading.
  std::vector<NamedSlice> parameter_slices(Which which) const;
  std::vector<NamedSlice> moment_slices(Which which) const;

 private:
  std::vector<NamedSlice> slices(const std::string& prefix, const std::vector<Span<float>>& flat, Which which) const;
  void round_to_parameters(int unit, Range range);

  std::vector<model::UnitLayout> units_;
  DType dtype_;
  Placement placement_;
  std::vector<Span<float>> master_;     // by unit
  std::vector<Span<bf16>> parameters_;  // by unit; empty where the model computes in fp32
  std::vector<std::string> moment_names_;
  std::vector<std::vector<Span<float>>> moments_;  // by moment, by unit
};

}  // namespace shoal::zero
