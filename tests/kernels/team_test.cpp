// SPDX-License-Identifier: Apache-2.0
// How portable kernels are launched: elements, teams, and what the threads of a team do together.
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "kernels/portable/launch.hpp"
#include "kernels/runtime_environment.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/trace.hpp"

namespace shoal::kernels::portable {
namespace of_team_test {

TEST(Launch, CallsEachElementOnce) {
  for (const std::size_t n : {0, 1, 4095, 4096, 4097, 100000}) {
    std::vector<int> calls(n);
    int* const at = calls.data();
    for_elements(
        "elements", n, SHOAL_LAMBDA(std::size_t i) { ++at[i]; });
    EXPECT_EQ(calls, std::vector<int>(n, 1));
  }
}

TEST(Launch, CallsEachTeamOnceWithItsOwnScratch) {
  for (const std::size_t items : {0, 1, 2, 100}) {
    std::vector<int> calls(items);
    int* const at = calls.data();
    for_teams(
        "teams", items, 40 * sizeof(int), SHOAL_LAMBDA(std::size_t item, const Team& team) {
          int* const scratch = reinterpret_cast<int*>(team.scratch());
          team.each(40, [&](std::size_t i) { scratch[i] = static_cast<int>(item); });
          team.sync();
          if (team.thread() == 0) {
            for (std::size_t i = 0; i < 40; ++i) at[item] += scratch[i] == static_cast<int>(item);
          }
        });
    EXPECT_EQ(calls, std::vector<int>(items, 40));
  }
}

TEST(Launch, RefusesMoreTeamsThanABackendCounts) {
  const auto launch = [](std::size_t items) { for_teams("teams", items, 0, SHOAL_LAMBDA(std::size_t, const Team&){}); };
  EXPECT_THROW(launch(most_items + 1), Error);
}

TEST(Launch, CopiesWhatItIsGiven) {
  std::vector<std::byte> from(3'000'001, std::byte{7}), to(from.size() + 1, std::byte{1});
  copy("copy", from.size(), from.data(), to.data());
  EXPECT_EQ(std::count(to.begin(), to.end(), std::byte{7}), static_cast<std::ptrdiff_t>(from.size()));
  EXPECT_EQ(to.back(), std::byte{1});
}

/// The sum of x in the order of rules/row_sums.hpp, written plainly.
float chained(const std::vector<float>& x) {
  float sums[rules::chains] = {};
  for (std::size_t i = 0; i < x.size(); ++i) sums[i % rules::chains] += x[i];
  return rules::join_chains(sums);
}

TEST(Team, AddsInTheDocumentedOrder) {
  for (const std::size_t n : {0, 1, 15, 63, 64, 65, 1000}) {
    std::vector<float> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = 1.0F / static_cast<float>(3 + i * i % 101);
    const float* const values = x.data();
    float total = -1.0F, largest = -1.0F;
    float *const sum = &total, *const most = &largest;
    for_teams(
        "sum", 1, 0, SHOAL_LAMBDA(std::size_t, const Team& team) {
          const float added = team.sum(n, [&](std::size_t i, float& s) { s += values[i]; });
          const float found = team.max(n, 0.0F, [&](std::size_t i) { return values[i]; });
          if (team.thread() == 0) {
            *sum = added;
            *most = found;
          }
        });
    EXPECT_EQ(total, chained(x)) << n;
    EXPECT_EQ(largest, n == 0 ? 0.0F : *std::max_element(x.begin(), x.end())) << n;
  }
}

TEST(Launch, LetsCommunicationMove) {
  static int pumped;
  pumped = 0;
  set_pump([] { ++pumped; });
  for_elements("elements", 5, SHOAL_LAMBDA(std::size_t){});
  for_teams("teams", 5, 0, SHOAL_LAMBDA(std::size_t, const Team&){});
  set_pump(nullptr);
  EXPECT_EQ(pumped, 2);
}

TEST(Launch, IsInTheTraceByItsLabel) {
  connect_trace();
  trace::start(trace::Level::kernels, 16);
  for_elements("some_elements", 3, SHOAL_LAMBDA(std::size_t){});
  for_teams("some_teams", 3, 0, SHOAL_LAMBDA(std::size_t, const Team&){});
  std::vector<std::string> names;
  for (const trace::Event& event : trace::drain()) names.push_back(trace::names()[static_cast<std::size_t>(event.name)]);
  trace::stop();
  EXPECT_EQ(names, (std::vector<std::string>{"some_elements", "some_teams"}));
}

}  // namespace of_team_test
}  // namespace shoal::kernels::portable
