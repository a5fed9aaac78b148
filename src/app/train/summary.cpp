// SPDX-License-Identifier: Apache-2.0
#include "app/train/summary.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "app/support/bytes_json.hpp"
#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/process_memory.hpp"
#include "app/support/statistics.hpp"
#include "app/support/version.hpp"
#include "app/train/verdict.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// AdaScale's gains of the steps that were updates, and the number of small-batch steps in the end.
Json adascale_summary(const History& history) {
  if (history.steps.gains().empty()) return nullptr;
  return {{"gains", history.steps.gains()}, {"effective_steps", history.steps.last().effective_steps}};
}

Json device_summary(const History& history) {
  const auto steps = static_cast<double>(history.steps.size());
  return {{"kind", name_of(device::kind())},
          {"waits_per_step", steps == 0 ? 0.0 : static_cast<double>(history.device_waits) / steps}};
}

Json verdict_summary(const Verdict& verdict) {
  return {{"ended", verdict.stopped_early ? "stopped early" : "done"},
          {"exit_code", static_cast<int>(verdict.exit)},
          {"steps_made", verdict.steps_made},
          {"updates_skipped", verdict.updates_skipped},
          {"ok", verdict.ok},
          {"text", verdict.text}};
}

/// Of rank 0: bytes of each tier, those that went up and down, and seconds in which the host waited for them.
Json tiers_summary(const ResolvedRun& resolved, const Memory& memory, const History& history) {
  Json tiers = Json::object();
  for (const auto& [where, name] : where_names) {
    const std::size_t planned = resolved.plan.bytes.in(where);
    if (where == Where::device || planned == 0) continue;
    tiers[name] = {{"planned", planned}, {"taken", memory.taken().in(where)}};
  }
  if (resolved.plan.bytes.in(Where::nvme) > 0) {
    const auto steps = static_cast<double>(std::max<std::size_t>(history.steps.size(), 1));
    tiers[name_of(Where::nvme)].update({{"up_bytes_per_step", static_cast<double>(history.nvme.up) / steps},
                                        {"down_bytes_per_step", static_cast<double>(history.nvme.down) / steps},
                                        {"wait_s_per_step", history.nvme.wait_s / steps}});
  }
  return tiers;
}

/// The checkpoint from which the run was resumed.
Json resumed_from(const History& history) {
  if (history.resumed_from.empty()) return nullptr;
  const io::Ancestor& before = history.lineage.ancestors.back();
  return {{"file", history.resumed_from.string()}, {"run", before.run}, {"step", before.step}};
}

/// The checkpoint that checkpoint.keep_best keeps.
Json best_checkpoint(const config::Options& options, const History& history) {
  if (!history.best) return nullptr;
  return {{"file", (checkpoint_directory(options) / io::checkpoint_name(history.best->step)).string()},
          {"step", history.best->step},
          {"val_loss", json_number(history.best->loss)}};
}

/// Mean bytes per step and operation, of the rank that sends most.
Json traffic_per_step(comm::World& world, const History& history) {
  const std::size_t steps = history.steps.size();
  Json mine = Json::object();
  std::uint64_t sent = 0;
  for (const auto& [operation, bytes] : history.traffic) {
    const auto mean = [&](std::uint64_t sum) {
      return steps == 0 ? 0.0 : static_cast<double>(sum) / static_cast<double>(steps);
    };
    mine[operation] = {{"intra", mean(bytes.intra)}, {"inter", mean(bytes.inter)}};
    sent += bytes.intra + bytes.inter;
  }
  const std::vector<std::uint64_t> all = gather_numbers(world.all(), sent);
  const auto most = std::max_element(all.begin(), all.end());
  return Json::parse(broadcast_text(world.all(), mine.dump(), static_cast<int>(most - all.begin())));
}

}  // namespace

void write_summary(comm::World& world, const ResolvedRun& resolved, const Memory& memory, const History& history,
                   const std::vector<StepTime>& earlier, const Verdict& verdict, const std::string& params_checksum) {
  const config::Options& o = resolved.options;
  const std::vector<double> seconds = history.steps.seconds();
  Json losses = Json::array(), norms = Json::array(), validation = Json::array();
  std::vector<StepTime> steps = earlier;
  std::int64_t step = history.steps.first().step;
  for (const MadeSteps::Numbers& numbers : history.steps.numbers()) {
    losses.push_back({step, json_number(numbers.loss)});
    norms.push_back({step, json_number(numbers.norm)});
    steps.push_back({step, numbers.seconds});
    ++step;
  }
  for (const auto& [after, loss] : history.validation) validation.push_back({after, json_number(loss)});

  const std::vector<std::uint64_t> rss = gather_numbers(world.all(), peak_rss_bytes());
  const std::vector<std::uint64_t> states = gather_numbers(world.all(), resolved.plan.bytes.total());
  const auto largest = static_cast<int>(std::max_element(states.begin(), states.end()) - states.begin());
  const Json state_bytes = Json::parse(broadcast_text(
      world.all(), Json{{"planned", bytes_by_kind(resolved.plan.bytes)}, {"taken", bytes_by_kind(memory.taken())}}.dump(),
      largest));
  const Json traffic = traffic_per_step(world, history);

  Json options = Json::object();
  for (const auto& [name, value] : config::list(o)) options[name] = value;
  const double tokens = static_cast<double>(o.batch.global * o.model.block_size);
  Json summary = {
      {"version", version()},
      {"verdict", verdict_summary(verdict)},
      {"losses", std::move(losses)},  // of millions of steps: not copied
      {"grad_norms", std::move(norms)},
      {"val_losses", validation},
      {"adascale", adascale_summary(history)},
      {"final_loss", history.steps.empty() ? Json(nullptr) : json_number(history.steps.last().loss)},
      {"tokens_per_s", seconds.empty() ? 0.0 : tokens / median(seconds)},
      {"step_s", seconds_json(seconds)},
      {"settled", settled_json(settled_of(steps, history.lineage.ancestors, o.sync), o.sync)},
      {"peak_rss_bytes", rss},
      {"state_bytes", state_bytes},
      {"tiers", tiers_summary(resolved, memory, history)},
      {"comm_bytes_per_step", traffic},
      {"device", device_summary(history)},
      {"params_checksum", params_checksum},
      {"world_size", world.size()},
      {"run", history.lineage.run},
      {"resumed_from", resumed_from(history)},
      {"best_checkpoint", best_checkpoint(o, history)},
      {"entropy_rate", resolved.dataset.entropy_rate ? Json(*resolved.dataset.entropy_rate) : Json(nullptr)},
      {"options", options},
  };
  // JSON must be UTF-8, but a path may contain any bytes.
  const auto dumped = [&] { return summary.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; };
  on_rank_0(world.all(), [&] { io::write_text_file(fs::path(o.output.dir) / summary_name, dumped()); });
}

}  // namespace shoal::app
