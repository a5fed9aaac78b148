// SPDX-License-Identifier: Apache-2.0
// Products are interrupted by a profiler's timer all the time, whose handler was installed as libraries do, without an
// alternate stack. [Note: borrowed stack pointers] (base/alternate_stack.hpp): in the code that oneDNN generates the stack
// pointer may lie in the heap.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/time.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/cpu/product/multiplier.hpp"
#include "shoal/kernels/matmul.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::kernels {
namespace {

std::atomic<int> on_own_stack = 0, elsewhere = 0;

void profile(int /*signal*/) {
  stack_t used{};
  sigaltstack(nullptr, &used);
  ++((used.ss_flags & SS_ONSTACK) != 0 ? on_own_stack : elsewhere);
}

void tick_every_us(int us) {
  const itimerval timer{{0, us}, {0, us}};
  ASSERT_EQ(setitimer(ITIMER_PROF, &timer, nullptr), 0);
}

/// The gradient of a feed-forward weight of inputs/quickstart.cfg. In fp32 products whose A is transposed the stack pointer
/// lies in the heap nearly always: in 1,576 of 1,681 samples of 28 of them on a Zen 4, and in none of others.
constexpr std::size_t m = 512, n = 128, k = 1024;
std::vector<float> product(int repetitions) {
  std::vector<float> a(k * m), b(k * n), c(m * n);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = static_cast<float>(i % 17) - 8;
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = static_cast<float>(i % 13) - 6;
  std::vector<std::byte> workspace(
      matmul_workspace_bytes<float, float>({.m = m, .n = n, .k = k, .transpose_a = Transpose::yes}));
  for (int i = 0; i < repetitions; ++i) {
    const MatmulInputs<float, float> in{.a = {a.data(), k, m}, .b = {b.data(), k, n}, .transpose_a = Transpose::yes};
    matmul("test", in, Matrix<float>{c.data(), m, n}, workspace);
  }
  return c;
}

TEST(Signals, HandlersOfAProfilerRunOnAnAlternateStackInProducts) {
  struct sigaction action {};
  action.sa_handler = profile;
  action.sa_flags = SA_RESTART;
  ASSERT_EQ(sigaction(SIGPROF, &action, nullptr), 0);
  const Runtime runtime(2);
  const std::vector<float> undisturbed = product(1);  // from here on each thread has its stack
  tick_every_us(500);
  while (on_own_stack + elsewhere < 50) {
    const std::vector<float> disturbed = product(20);
    ASSERT_EQ(std::memcmp(disturbed.data(), undisturbed.data(), undisturbed.size() * sizeof(float)), 0);
  }
  tick_every_us(0);
  // Other products are compiled code, which leaves the stack pointer where it belongs.
  if (multiplier_of({m, n, k, Transpose::yes, Transpose::no, DType::f32, DType::f32}) == Multiplier::library) {
    EXPECT_EQ(elsewhere, 0) << "of " << on_own_stack + elsewhere;
  }
}

}  // namespace
}  // namespace shoal::kernels
