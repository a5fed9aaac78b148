// SPDX-License-Identifier: Apache-2.0
// Shared by the programs that time single kernels with Google Benchmark.
#pragma once

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "shoal/base/memory.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::bench {

/// Memory in huge pages, as in a run. With small pages a kernel that reads several arrays takes up to 50 % longer.
class Arena {
 public:
  /// Numbers from -2 to 2, the same ones in each array.
  template <typename T = float>
  Span<T> values(std::size_t count) {
    const Span<T> v = memory_.take<T>(Kind::buffers, count, "values");
    for (std::size_t i = 0; i < count; ++i) v[i] = T(static_cast<float>(i * 7919 % 4001) / 1000.0F - 2.0F);
    return v;
  }
  template <typename T>
  Span<T> zeros(std::size_t count) {
    const Span<T> v = memory_.take<T>(Kind::buffers, count, "zeros");
    std::fill(v.begin(), v.end(), T{});  // touches the pages
    return v;
  }

 private:
  static Ledger capacity() {
    Ledger bytes;
    bytes[Kind::buffers] = std::size_t{1} << 30U;  // the system provides only pages that are touched
    return bytes;
  }
  Memory memory_{capacity()};
};

inline void count_bytes(benchmark::State& state, std::size_t bytes) {
  state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * static_cast<std::int64_t>(bytes));
}

/// Times `pass`, which reads and writes this many bytes.
template <class Pass>
void run(benchmark::State& state, std::size_t bytes, const Pass& pass) {
  for ([[maybe_unused]] auto _ : state) {
    pass();
    benchmark::ClobberMemory();
  }
  count_bytes(state, bytes);
}

/// What main() does when all benchmarks are registered. The output names the libraries, among them what launches kernels.
inline int run_registered(int argc, char** argv) {
  for (const auto& [library, version] : kernels::library_versions()) benchmark::AddCustomContext(library, version);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}

}  // namespace shoal::bench
