// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/outer.hpp"

#include "../rules/outer.hpp"
#include "loops.hpp"
#include "simd.hpp"

namespace shoal::kernels {

using simd::broadcast;
using simd::Floats;
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
  each("average_with", n,
       [=](std::size_t i, auto part) { store(x + i, rules::average(load(x + i, part), load(other + i, part)), part); });
}

void average_with_stale(std::size_t n, const float* other, const float* before, float* x) {
  each("average_with_stale", n, [=](std::size_t i, auto part) {
    store(x + i, rules::average_with_stale(load(x + i, part), load(other + i, part), load(before + i, part)), part);
  });
}

void rebase(std::size_t n, const float* mean, const float* before, float* x) {
  each("rebase", n, [=](std::size_t i, auto part) {
    store(x + i, rules::rebased(load(x + i, part), load(mean + i, part), load(before + i, part)), part);
  });
}

void swap(std::size_t n, float* x, float* y) {
  each("swap", n, [=](std::size_t i, auto part) {
    const Floats first = load(x + i, part), second = load(y + i, part);
    store(x + i, second, part);
    store(y + i, first, part);
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
    Floats now = load(outer + i, part), moment = load(u + i, part);
    rules::slow_momentum(step, load(x + i, part), now, moment);
    store(u + i, moment, part);
    store(outer + i, now, part);
    store(x + i, now, part);
  });
}

void outer_nesterov(std::size_t n, const OuterStep& step, float* outer, float* u, float* x) {
  each("outer_nesterov", n, [=](std::size_t i, auto part) {
    Floats now = load(outer + i, part), moment = load(u + i, part);
    rules::outer_nesterov(step, load(x + i, part), now, moment);
    store(u + i, moment, part);
    store(outer + i, now, part);
    store(x + i, now, part);
  });
}

}  // namespace shoal::kernels
