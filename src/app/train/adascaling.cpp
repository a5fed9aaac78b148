// SPDX-License-Identifier: Apache-2.0
#include "app/train/adascaling.hpp"

#include <array>
#include <cmath>
#include <numeric>

#include "app/setup/engine_options.hpp"

namespace shoal::app {

AdaScaling::AdaScaling(const config::Options& options, std::size_t micro_batches)
    : adascale_(options.adascale, micro_batches),
      weighted_(measured_squares(options) == zero::Squares::weighted),
      power_(options.adascale.power >= 0 ? options.adascale.power
             : weighted_                 ? 0.5
                                         : 1.0) {}

AdaScaling::Step AdaScaling::observe(std::int64_t updates, Span<const double> micro_squares, double mean_square) {
  const auto count = static_cast<double>(micro_squares.size());
  const double micro =
      std::accumulate(micro_squares.begin(), micro_squares.end(), 0.0);  // in the order of the micro-batches
  // Before the first update there are no second moments for weights, so that step counts as one of the small batch.
  if (!weighted_ || updates > 0) adascale_.observe(std::array{optim::AdaScale::Squares{count * count * micro, mean_square}});
  adascale_.advance();
  return {adascale_.gain(), std::pow(adascale_.gain(), power_)};
}

std::map<std::string, double> AdaScaling::numbers() const {
  const optim::AdaScale::State& state = adascale_.state();
  return {{"adascale/square", state.square.front()},
          {"adascale/variance", state.variance.front()},
          {"adascale/observed", static_cast<double>(state.observed)},
          {"adascale/effective_steps", state.effective_steps}};
}

void AdaScaling::restore(std::int64_t steps, const std::map<std::string, double>& numbers) {
  optim::AdaScale::State state = adascale_.state();
  state.effective_steps = static_cast<double>(steps);
  if (numbers.contains("adascale/observed")) {
    state = {{numbers.at("adascale/square")},
             {numbers.at("adascale/variance")},
             static_cast<std::uint64_t>(numbers.at("adascale/observed")),
             numbers.at("adascale/effective_steps")};
  }
  adascale_.restore(state);
}

}  // namespace shoal::app
