// SPDX-License-Identifier: Apache-2.0
// A result is replaced only by a result of its kind: what another program wrote under its name stays, and so does another
// command's.
#include "app/support/own_results.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "shoal/base/error.hpp"

namespace shoal::app {
namespace of_own_results_test {

namespace fs = std::filesystem;

class OwnResults : public testing::Test {
 protected:
  ~OwnResults() override { fs::remove(file_); }

  bool is_own(const std::string& content, const io::OwnKind& kind) const {
    std::ofstream(file_) << content;
    return io::is_own(file_, kind);
  }

  fs::path file_ = fs::temp_directory_path() / text("shoal-own-results.", getpid());
};

TEST_F(OwnResults, AreKnownByTheirContent) {
  const std::vector<std::pair<io::OwnKind, std::string>> results = {
      {own_summary(), R"({"losses": [], "options": {}})"},
      {own_metrics(), "{\"step\": 1, \"loss\": 2.5}\n{\"step\": 2}\n"},
      {own_run_record(), R"({"run": "7", "ancestors": []})"},
      {own_log(), text(log_mark, ", 2026-11-30T08:00:00Z\n# shoal 0.1.0\n")},
      {own_plan(), R"({"runs": [], "deepspeed": []})"},
      {own_bench(), R"({"program": "shoal", "format": "shoal-bench-comm"})"},
      {own_tiers(), R"({"program": "shoal", "format": "shoal-bench-tiers"})"},
      {own_doctor(), R"({"format": "shoal-doctor"})"},
      {own_simulation(), R"({"format": "shoal-simulation"})"},
      {own_replay(), R"({"format": "shoal-replay"})"},
  };
  for (std::size_t kind = 0; kind < results.size(); ++kind) {
    for (std::size_t of = 0; of < results.size(); ++of) {
      const std::string content = results[of].second + "\n";
      EXPECT_EQ(is_own(content, results[kind].first), of == kind) << results[kind].first.name << ": " << content;
    }
    const std::vector<std::string> foreign = {
        "years of work\n", "# shoal 0.1.0\n", "[1, 2]\n", "7\n", "{}\n", "{\"options\": {}, \"format\": 1}\n"};
    for (const std::string& content : foreign) {
      EXPECT_FALSE(is_own(content, results[kind].first)) << results[kind].first.name << ": " << content;
    }
  }
}

TEST_F(OwnResults, OfAKilledRunMayEndInTheirFirstLine) {
  EXPECT_TRUE(is_own(R"({"step": 1, "lo)", own_metrics()));
  EXPECT_FALSE(is_own("{\"step\": 1, \"lo\n", own_metrics()));
}

}  // namespace of_own_results_test
}  // namespace shoal::app
