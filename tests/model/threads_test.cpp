// SPDX-License-Identifier: Apache-2.0
// No result depends on the number of threads. Kernels can be started only once in a process, so each number of threads is
// run in a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <bit>

#include "harness.hpp"
#include "shoal/base/names.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::model::test {
namespace {

struct Result {
  std::uint64_t loss_bits = 0, gradient_hash = 0;
  bool operator==(const Result&) const = default;
};

Result run(const ModelOptions& options, DType dtype, int threads) {
  const kernels::Runtime runtime(threads);
  Instance instance(options, {5, options.block_size}, dtype);
  const RandomBatch data(5, options.block_size, options.vocab_size);
  Result result;
  result.loss_bits = std::bit_cast<std::uint64_t>(instance.forward_backward(data.batch));
  instance.access.for_each([&](const Parameter&, Span<float>, Span<const float> gradient) {
    for (const float g : gradient)
      result.gradient_hash = result.gradient_hash * 0x100000001B3U ^ std::bit_cast<std::uint32_t>(g);
  });
  return result;
}

Result run_in_a_process(const ModelOptions& options, DType dtype, int threads) {
  int ends[2];
  require(pipe(ends) == 0, "no pipe");
  const pid_t child = fork();
  require(child >= 0, "no process");
  if (child == 0) {
    const Result result = run(options, dtype, threads);
    const bool written = write(ends[1], &result, sizeof result) == sizeof result;
    _exit(written ? 0 : 1);
  }
  close(ends[1]);
  Result result;
  const bool whole = read(ends[0], &result, sizeof result) == sizeof result;
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(whole && status == 0) << threads << " threads: status " << status;
  return result;
}

TEST(Threads, DoNotChangeABit) {
  ModelOptions gpt;
  gpt.n_layer = 2;
  gpt.n_head = 3;
  gpt.n_embd = 96;
  gpt.block_size = 65;
  gpt.vocab_size = 131;
  gpt.dropout = 0.1;
  ModelOptions mlp = gpt;
  mlp.kind = ModelKind::mlp;
  mlp.dropout = 0;
  for (const ModelOptions& options : {gpt, mlp}) {
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const Result one = run_in_a_process(options, dtype, 1);
      for (const int threads : {2, 3}) {
        EXPECT_EQ(run_in_a_process(options, dtype, threads), one)
            << name_of(options.kind) << ", " << name_of(dtype) << ", " << threads;
      }
    }
  }
}

}  // namespace
}  // namespace shoal::model::test
