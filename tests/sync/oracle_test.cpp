// SPDX-License-Identifier: Apache-2.0
// Compares with the trajectories of FairScale's SlowMoDistributedDataParallel on a problem of ten parameters, rank by rank.
// If the reference data are absent, with 12 steps of one of them, from data/slowmo.txt.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "support/oracle.hpp"
#include "sync/toy.hpp"

namespace shoal::sync::test {
namespace of_oracle_test {

constexpr std::size_t parameters = 10;
constexpr double tolerance = 1e-5;  // the reference's own spread between float and double is up to 7e-7

struct Case {
  SyncOptions options;
  std::size_t ranks = 4, per_node = 1, steps = 12;
  double rate = 0.05, momentum = 0.9;
  std::size_t change_at = 0;  // the first step, from 0, with another rate; 0: none
  double changed_rate = 0;
  bool begins_late = false;             // the outer update's state begins after the first local step
  std::vector<float> h, target, start;  // [10], [steps, ranks, 10], [ranks, 10]
  std::vector<double> x;                // [ranks, checked + 1, 10]
  std::vector<std::size_t> checked;     // numbers of steps after which x is compared
};

/// FairScale's rank r owns elements r L .. (r + 1) L - 1, but here sub-shards are whole granules. So those elements are put
/// into granule r. The update is elementwise, and the elements between stay zero.
std::size_t place(std::size_t element, std::size_t ranks) {
  const std::size_t length = (parameters + ranks - 1) / ranks;
  return element / length * granule + element % length;
}

void expect_trajectory(const Case& c) {
  divide_into_nodes(static_cast<int>(c.per_node));
  const auto rank = static_cast<std::size_t>(shoal::test::world().all().rank());
  const std::size_t node = rank / c.per_node;
  std::vector<std::size_t> element(c.ranks * granule, parameters);  // by place in the unit
  for (std::size_t i = 0; i < parameters; ++i) element[place(i, c.ranks)] = i;
  std::vector<model::UnitLayout> units(1);
  units[0].name = "all";
  units[0].add("x", {c.ranks * granule}, 0);

  Toy toy(c.options, units, 0, c.momentum);
  toy.fill(
      [&](std::size_t, std::size_t i) { return element[i] < parameters ? c.start[rank * parameters + element[i]] : 0.0F; });
  toy.synchroniser().start_from_masters();
  double largest = 0;
  std::size_t next = 0;
  for (std::size_t t = 0; t < c.steps; ++t) {
    const double rate = c.change_at > 0 && t >= c.change_at ? c.changed_rate : c.rate;
    toy.train(t + 1, rate, [&](std::size_t, std::size_t i, float x) {
      if (element[i] == parameters) return 0.0F;
      float sum = 0;
      for (std::size_t mate = node * c.per_node; mate < (node + 1) * c.per_node; ++mate) {
        sum += c.h[element[i]] * (x - c.target[(t * c.ranks + mate) * parameters + element[i]]);
      }
      return sum / static_cast<float>(c.per_node);
    });
    if (t == 0 && c.begins_late) toy.synchroniser().start_from_masters();
    toy.synchroniser().after_step(t + 1, rate);
    if (next == c.checked.size() || c.checked[next] != t + 1) continue;
    const std::vector<float> x = toy.whole();
    for (std::size_t i = 0; i < parameters; ++i) {
      const double want = c.x[(rank * c.checked.size() + next) * parameters + i];
      largest = std::max(largest, std::abs(x[place(i, c.ranks)] - want));
      ASSERT_NEAR(x[place(i, c.ranks)], want, tolerance) << "element " << i << " after step " << t + 1;
    }
    ++next;
  }
  EXPECT_EQ(next, c.checked.size());
  EXPECT_GT(largest, 0) << "nothing was compared";
}

Case from_file(const std::string& name, const nlohmann::json& config, const shoal::test::Hdf5& file) {
  Case c;
  const auto base = value_named<SyncKind>(std::string(config["base"])).value();
  const bool slow = config["slowmo_momentum"] != 0.0 || config["slowmo_lr"] != 1.0;
  c.options.kind = slow ? SyncKind::slowmo : base;
  c.options.slowmo_base = base;
  c.options.localsgd_frequency = config["localsgd_frequency"];
  c.options.slowmo_frequency = config["slowmo_frequency"];
  c.options.slowmo_momentum = config["slowmo_momentum"];
  c.options.slowmo_lr = config["slowmo_lr"];
  c.options.slowmo_memory_efficient = config["memory_efficient"];
  c.ranks = config["ranks"];
  c.per_node = config["per_node"];
  c.steps = config["steps"];
  c.rate = config["lr"];
  c.momentum = config["momentum"];
  if (!config["lr_change"].is_null()) {
    c.change_at = config["lr_change"][0];
    c.changed_rate = config["lr_change"][1];
  }
  c.begins_late = config["init"] == "first_call";
  c.h = file.dataset<float>(name + "/h");
  c.target = file.dataset<float>(name + "/target");
  c.start = file.dataset<float>(name + "/start");
  const std::vector<double> x = file.dataset<double>(name + "/x_f64");
  for (std::size_t r = 0; r < c.ranks; ++r) {  // without the start
    const auto first = x.begin() + static_cast<std::ptrdiff_t>((r * (c.steps + 1) + 1) * parameters);
    c.x.insert(c.x.end(), first, first + static_cast<std::ptrdiff_t>(c.steps * parameters));
  }
  for (std::size_t t = 1; t <= c.steps; ++t) c.checked.push_back(t);
  return c;
}

TEST(SlowMoOracle, TrajectoriesOfTheLibrary) {
  const std::filesystem::path folder = shoal::test::shared_data("oracles/slowmo");
  SHOAL_NEED(folder / "slowmo.h5");
  nlohmann::json cases;
  std::ifstream(folder / "slowmo.json") >> cases;
  const shoal::test::Hdf5 file(folder / "slowmo.h5");
  const int ranks = shoal::test::world().size();
  std::size_t seen = 0, of_these_ranks = 0;
  for (const auto& content : cases["cases"]) of_these_ranks += content["config"]["ranks"] == ranks ? 1 : 0;
  for (const auto& [name, content] : cases["cases"].items()) {
    const auto& config = content["config"];
    if (config["ranks"] != ranks) continue;
    SCOPED_TRACE(name);
    ++seen;
    expect_trajectory(from_file(name, config, file));
  }
  EXPECT_EQ(seen, of_these_ranks);
  EXPECT_GT(seen, 0U) << "the oracle has no case of " << ranks << " ranks";
}

/// x_new = W x for the exchanges of the directed exponential graph, and the products of W over the exchanges.
TEST(SlowMoOracle, MixingMatrices) {
  const std::filesystem::path file = shoal::test::shared_data("oracles/slowmo/slowmo.h5");
  SHOAL_NEED(file);
  const int nodes = shoal::test::world().size();
  const auto n = static_cast<std::size_t>(nodes);
  const shoal::test::Hdf5 oracle(file);
  const std::string group = "mixing_" + std::to_string(nodes) + "/";
  const auto matrices = oracle.dataset<double>(group + "matrices"), products = oracle.dataset<double>(group + "products");
  const std::size_t exchanges = matrices.size() / (n * n);
  ASSERT_GE(exchanges, 12U);
  ASSERT_EQ(products.size(), (exchanges + 1) * n * n);
  std::vector<double> product(n * n, 0.0);
  for (std::size_t i = 0; i < n; ++i) product[i * n + i] = 1;
  for (std::size_t t = 0; t <= exchanges; ++t) {
    for (std::size_t i = 0; i < n * n; ++i) ASSERT_NEAR(product[i], products[t * n * n + i], 1e-15) << "after " << t;
    if (t == exchanges) break;
    const int hop = SyncSchedule::hop(t, nodes);
    std::vector<double> matrix(n * n, 0.0), next(n * n, 0.0);
    for (std::size_t node = 0; node < n; ++node) {
      matrix[node * n + node] = 0.5;
      matrix[node * n + (node + n - static_cast<std::size_t>(hop)) % n] = 0.5;
    }
    for (std::size_t i = 0; i < n * n; ++i) ASSERT_EQ(matrix[i], matrices[t * n * n + i]) << "exchange " << t;
    for (std::size_t i = 0; i < n * n; ++i) {
      for (std::size_t k = 0; k < n; ++k) next[i] += matrix[i / n * n + k] * product[k * n + i % n];
    }
    product = next;
  }
}

SHOAL_RUN_IF(SlowMoOracle, TwelveStepsCopied, ranks == 4);
TEST(SlowMoOracle, TwelveStepsCopied) {
  Case c;
  c.options.kind = SyncKind::slowmo;
  c.options.slowmo_frequency = 6;
  c.checked = {6, 12};
  std::ifstream file(shoal::test::source_tree() / "tests/sync/data/slowmo.txt");
  const auto numbers = [&](std::size_t count) {
    std::vector<double> values(count);
    for (double& value : values) file >> value;
    return values;
  };
  const auto floats = [&](std::size_t count) {
    const std::vector<double> values = numbers(count);
    return std::vector<float>(values.begin(), values.end());
  };
  c.h = floats(parameters);
  c.start = floats(c.ranks * parameters);
  c.target = floats(c.steps * c.ranks * parameters);
  const std::vector<double> x = numbers(2 * c.ranks * parameters);  // [checked, ranks, 10]
  ASSERT_TRUE(file.good());
  for (std::size_t r = 0; r < c.ranks; ++r) {
    for (std::size_t t = 0; t < 2; ++t) {
      const auto first = x.begin() + static_cast<std::ptrdiff_t>((t * c.ranks + r) * parameters);
      c.x.insert(c.x.end(), first, first + static_cast<std::ptrdiff_t>(parameters));
    }
  }
  expect_trajectory(c);
}

}  // namespace of_oracle_test
}  // namespace shoal::sync::test
