// SPDX-License-Identifier: Apache-2.0
#include "shoal/kernels/runtime.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "kernels/common/parallel_for.hpp"
#include "kernels/cpu/vectors/amx.hpp"
#include "kernels/cpu/vectors/instructions.hpp"
#include "kernels/runtime_environment.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::kernels {

TEST(Runtime, SaysWhatItIsBuiltOn) {
  std::vector<std::string> names;
  for (const auto& [library, version] : library_versions()) {
    names.push_back(library);
    EXPECT_THAT(version, testing::ContainsRegex("[0-9]+[.][0-9]+")) << library;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"Kokkos", "oneDNN", "compiler"}));
  EXPECT_EQ(device_name().find(", AMX") != std::string::npos, amx::available()) << device_name();
  EXPECT_GE(available_cores(), 1);
}

// Both the library and our own kernels: a run that is limited to AVX-512 computes like a processor without AMX.
TEST(Runtime, HeedsTheLimitOfInstructions) {
  const char* const limit = std::getenv("ONEDNN_MAX_CPU_ISA");
  const std::string used = instructions_used();
  if (limit != nullptr) {
    EXPECT_EQ(used, limit);
  }
  EXPECT_EQ(may_use(Instructions::bf16), used == "AVX512_CORE_AMX" || used == "AVX512_CORE_BF16");
  if (used != "AVX512_CORE_AMX") {
    EXPECT_FALSE(may_use(Instructions::tiles));
    EXPECT_FALSE(amx::available());
  }
}

TEST(ParallelFor, CallsEachItemOnce) {
  for (const int threads : {1, 2, 3}) {
    const WithThreads with(threads);
    for (const std::size_t items : {0, 1, 2, 100}) {
      std::vector<int> calls(items);
      parallel_for("visit", items, [&](std::size_t item, int thread) {
        EXPECT_GE(thread, 0);
        EXPECT_LT(thread, threads);
        ++calls[item];
      });
      EXPECT_EQ(calls, std::vector<int>(items, 1)) << threads << " threads";
    }
  }
}

TEST(ParallelFor, LetsCommunicationMove) {
  static int pumped;
  pumped = 0;
  set_pump([] { ++pumped; });
  parallel_for("pump", 5, [](std::size_t) {});
  set_pump(nullptr);
  EXPECT_EQ(pumped, 1);
}

TEST(Trace, RecordsKernelsWhileItIsOn) {
  connect_trace();
  for (const int threads : {1, 2}) {
    const WithThreads with(threads);
    trace::start(trace::Level::kernels, 16);
    parallel_for("traced_kernel", 3, [](std::size_t) {});
    const std::vector<trace::Event> events = trace::drain();
    trace::stop();
    parallel_for("untraced_kernel", 3, [](std::size_t) {});
    ASSERT_EQ(events.size(), 1U) << threads << " threads";
    EXPECT_EQ(trace::names()[static_cast<std::size_t>(events[0].name)], "traced_kernel");
    EXPECT_EQ(events[0].kind, static_cast<std::uint16_t>(trace::Kind::kernel));
    EXPECT_EQ(trace::pending(), 0U);
  }
}

}  // namespace shoal::kernels
