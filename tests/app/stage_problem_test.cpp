// SPDX-License-Identifier: Apache-2.0
// The memory check of a run counts what the run takes beside its engine: the copy of a checkpoint, the state of local
// training, the pieces of an export. A run that it accepts wrongly is killed for want of memory.
#include <gtest/gtest.h>

#include <functional>

#include "app/setup/stage_memory.hpp"
#include "small_options.hpp"

namespace shoal::app {
namespace of_stage_problem_test {

using test::small_options;

constexpr int ranks = 2;

struct Feature {
  const char* name;
  const char* buffer;  ///< a part of the label of what it takes
  std::function<void(config::Options&)> turn_on;
};

const std::vector<Feature>& features() {
  static const std::vector<Feature> all = {
      {"checkpoint.async", "checkpoint copy", [](config::Options& o) { o.checkpoint.async = true; }},
      {"sync.kind = slowmo", "outer",
       [](config::Options& o) {
         o.sync.kind = sync::SyncKind::slowmo;
         o.sync.nprocs_per_node = 1;
       }},
      {"output.export", "export", [](config::Options& o) { o.output.export_dir = "weights"; }},
  };
  return all;
}

std::size_t engine_bytes(const PlannedStages& planned, const RankLayout& division) {
  return plan::memory(planned.engine_of(0), 0, division.sync_group_size, {}).bytes.total();
}

TEST(MemoryProblem, CountsWhatIsTakenBesideTheEngine) {
  for (const Feature& feature : features()) {
    SCOPED_TRACE(feature.name);
    config::Options options = small_options();
    feature.turn_on(options);
    const RankLayout division = divide(options, ranks, ranks);
    const PlannedStages planned = plan_stages(options, division, Purpose::train, std::nullopt);
    const std::size_t bytes = planned.bytes();
    ASSERT_GT(bytes, engine_bytes(planned, division)) << "it takes nothing, so the limits below test nothing";
    const bool named = std::any_of(planned.memory[0].parts.begin(), planned.memory[0].parts.end(),
                                   [&](const auto& part) { return part.label.find(feature.buffer) != std::string::npos; });
    EXPECT_TRUE(named) << feature.buffer;
    const auto problem = [&](std::size_t limit) {
      return memory_problem(planned, options, division, Purpose::train, limit);
    };
    EXPECT_EQ(problem(bytes), "");
    EXPECT_EQ(problem(bytes - 1).rfind("the run needs ", 0), 0U) << problem(bytes - 1);
  }
}

}  // namespace of_stage_problem_test
}  // namespace shoal::app
