// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/sample.hpp"

#include "../rules/sample.hpp"
#include "loops.hpp"

namespace shoal::kernels {

namespace {

/// Calls f(i) for each of n granules.
template <class F>
void each(const char* label, std::size_t n, const F& f) {
  for_elements(label, n, [&f](std::size_t begin, std::size_t count) {
    for (std::size_t i = begin; i < begin + count; ++i) f(i);
  });
}

}  // namespace

void draw_sample(const Sample& sample, Range shard, const float* values, float* drawn) {
  each("draw_sample", (shard.size() + granule - 1) / granule,
       [=](std::size_t i) { drawn[i] = values[rules::sampled_element(sample, shard.begin / granule + i) - shard.begin]; });
}

void weigh_sample(const Sample& sample, double correction, double epsilon, double* mean, float* weights) {
  const std::size_t granules = rules::sampled_granules(sample);
  double sum = 0.0;
  for (std::size_t i = 0; i < granules; ++i) {
    sum += static_cast<double>(weights[rules::weight_of(sample, i)]) / static_cast<double>(granules);
  }
  *mean = sum;
  each("weigh_sample", granules, [=](std::size_t i) {
    float& weight = weights[rules::weight_of(sample, i)];
    weight = rules::sample_weight(weight, sum, correction, epsilon);
  });
}

void weighted_squares(const Sample& sample, const float* weights, std::size_t first, std::size_t granules, DType type,
                      const void* values, double* squares) {
  dispatch(type, [=]<typename T>(T) {
    const auto* const from = static_cast<const T*>(values);
    each("weighted_squares", granules, [=](std::size_t i) {
      const float value = from[rules::sampled_element(sample, first + i) - first * granule];
      squares[i] = rules::weighted_square(weights[rules::weight_of(sample, first + i)], value);
    });
  });
}

}  // namespace shoal::kernels
