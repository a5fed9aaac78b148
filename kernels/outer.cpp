// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/outer.hpp"

#include "loops.hpp"
#include "simd.hpp"

namespace shoal::kernels {

using simd::broadcast;
using simd::Floats;
using simd::fma;
using simd::for_vectors;
using simd::load;
using simd::store;

namespace {

/// Calls rule(i, part) for each vector, which begins at element i.
template <class Rule>
void each(const char* label, std::size_t n, const Rule& rule) {
  for_elements(label, n, [=](std::size_t begin, std::size_t count) {
    for_vectors(count, [=](std::size_t offset, auto part) { rule(begin + offset, part); });
  });
}

}  // namespace

void divide(std::size_t n, float divisor, float* x) {
  each("divide", n, [=](std::size_t i, auto part) { store(x + i, load(x + i, part) / broadcast(divisor), part); });
}

void average_with(std::size_t n, const float* other, float* x) {
  each("meet", n, [=](std::size_t i, auto part) { store(x + i, (load(x + i, part) + load(other + i, part)) * 0.5F, part); });
}

void average_with_stale(std::size_t n, const float* other, const float* before, float* x) {
  each("meet_late", n, [=](std::size_t i, auto part) {
    store(x + i, fma(load(other + i, part) - load(before + i, part), broadcast(0.5F), load(x + i, part)), part);
  });
}

void rebase(std::size_t n, const float* mean, const float* before, float* x) {
  each("carry_on", n, [=](std::size_t i, auto part) {
    store(x + i, load(mean + i, part) + (load(x + i, part) - load(before + i, part)), part);
  });
}

void subtract(DType type, std::size_t n, const float* x, const float* base, void* difference) {
  dispatch(type, [=]<typename T>(T) {
    auto* const to = static_cast<T*>(difference);
    each("subtract", n, [=](std::size_t i, auto part) { store(to + i, load(x + i, part) - load(base + i, part), part); });
  });
}

void add_to_base(DType type, std::size_t n, const float* base, const void* difference, float divisor, float* x) {
  dispatch(type, [=]<typename T>(T) {
    const auto* const from = static_cast<const T*>(difference);
    each("add_to_base", n, [=](std::size_t i, auto part) {
      store(x + i, load(base + i, part) + load(from + i, part) / broadcast(divisor), part);
    });
  });
}

void slow_momentum(std::size_t n, const OuterStep& step, float* outer, float* u, float* x) {
  each("slow_momentum", n, [=](std::size_t i, auto part) {
    const Floats was = load(outer + i, part);
    const Floats moment =
        fma(broadcast(step.momentum), load(u + i, part), (was - load(x + i, part)) / broadcast(step.inner_rate));
    const Floats now = fma(broadcast(-step.rate * step.inner_rate), moment, was);
    store(u + i, moment, part);
    store(outer + i, now, part);
    store(x + i, now, part);
  });
}

void outer_nesterov(std::size_t n, const OuterStep& step, float* outer, float* u, float* x) {
  each("outer_nesterov", n, [=](std::size_t i, auto part) {
    const Floats was = load(outer + i, part);
    const Floats difference = was - load(x + i, part);
    const Floats moment = fma(broadcast(step.momentum), load(u + i, part), difference);
    const Floats now = fma(broadcast(-step.rate), fma(broadcast(step.momentum), moment, difference), was);
    store(u + i, moment, part);
    store(outer + i, now, part);
    store(x + i, now, part);
  });
}

}  // namespace shoal::kernels
