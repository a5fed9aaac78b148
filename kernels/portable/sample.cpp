// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/sample.hpp"

#include "kernels/portable/launch.hpp"
#include "kernels/rules/sample.hpp"

namespace shoal::kernels {

using namespace portable;

namespace {

/// One thread adds, so that the order is that of the granules; the others divide for it.
void mean_of_sample(const Sample& sample, const float* weights, double* mean) {
  constexpr std::size_t at_a_time = 1024;
  const std::size_t granules = rules::sampled_granules(sample);
  for_teams(
      "mean_of_sample", 1, at_a_time * sizeof(double), SHOAL_LAMBDA(std::size_t, const Team& team) {
        auto* const shares = reinterpret_cast<double*>(team.scratch());
        double sum = 0.0;  // of thread 0
        for (std::size_t first = 0; first < granules; first += at_a_time) {
          const std::size_t here = smaller(at_a_time, granules - first);
          team.each(here, [&](std::size_t i) {
            const double moment = weights[rules::weight_of(sample, first + i)];
            shares[i] = moment / static_cast<double>(granules);
          });
          team.sync();
          if (team.thread() == 0) {
            for (std::size_t i = 0; i < here; ++i) sum += shares[i];
          }
          team.sync();
        }
        if (team.thread() == 0) *mean = sum;
      });
}

template <typename T>
void weighted_squares_of(const Sample& sample, const float* weights, std::size_t first, std::size_t granules,
                         const T* values, double* squares) {
  for_elements(
      "weighted_squares", granules, SHOAL_LAMBDA(std::size_t i) {
        const float value = values[rules::sampled_element(sample, first + i) - first * granule];
        squares[i] = rules::weighted_square(weights[rules::weight_of(sample, first + i)], value);
      });
}

}  // namespace

void draw_sample(const Sample& sample, Range shard, const float* values, float* drawn) {
  for_elements(
      "draw_sample", parts(shard.size(), granule), SHOAL_LAMBDA(std::size_t i) {
        drawn[i] = values[rules::sampled_element(sample, shard.begin / granule + i) - shard.begin];
      });
}

void weigh_sample(const Sample& sample, double correction, double epsilon, double* mean, float* weights) {
  mean_of_sample(sample, weights, mean);
  for_elements(
      "weigh_sample", rules::sampled_granules(sample), SHOAL_LAMBDA(std::size_t i) {
        float& weight = weights[rules::weight_of(sample, i)];
        weight = rules::sample_weight(weight, *mean, correction, epsilon);
      });
}

void weighted_squares(const Sample& sample, const float* weights, std::size_t first, std::size_t granules, DType type,
                      const void* values, double* squares) {
  dispatch(type, [=]<typename T>(T) {
    weighted_squares_of(sample, weights, first, granules, static_cast<const T*>(values), squares);
  });
}

}  // namespace shoal::kernels
