// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "bytes_json.hpp"
#include "collective.hpp"
#include "run_record.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/names.hpp"
#include "shoal/device/kind.hpp"
#include "shoal/io/checkpoint.hpp"
#include "shoal/io/text_file.hpp"
#include "verdict.hpp"
#include "version.hpp"

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

/// The checkpoint from which the run was resumed.
Json resumed_from(const History& history) {
  if (history.resumed_from.empty()) return nullptr;
  const io::Ancestor& before = history.lineage.ancestors.back();
  return {{"file", history.resumed_from.string()}, {"run", before.run}, {"step", before.step}};
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

fs::path checkpoint_directory(const config::Options& options) {
  return options.checkpoint.dir.empty() ? fs::path(options.output.dir) / checkpoints_name : fs::path(options.checkpoint.dir);
}

fs::path trace_path(const config::Options& options) {
  return options.trace.file.empty() ? fs::path(options.output.dir) / trace_name : fs::path(options.trace.file);
}

fs::path next_trace_part(const config::Options& options, std::int64_t first_step) {
  fs::path whole = trace_path(options);
  const auto taken = [](const fs::path& path) { return fs::exists(fs::symlink_status(path)); };
  if (first_step == 0 && !taken(whole)) return whole;
  const std::string stem = text((whole.parent_path() / whole.stem()).string(), "_from_", first_step);
  fs::path part = stem + whole.extension().string();
  for (int number = 2; taken(part); ++number) part = text(stem, "_", number, whole.extension().string());
  return part;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::uint64_t current_rss_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t size = 0, resident = 0;
  statm >> size >> resident;
  return resident * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
}

std::uint64_t peak_rss_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

void write_summary(comm::World& world, const Setup& setup, const Memory& memory, const History& history,
                   const Verdict& verdict, const std::string& params_checksum) {
  const config::Options& o = setup.options;
  const std::vector<double> seconds = history.steps.seconds();
  Json losses = Json::array(), norms = Json::array(), validation = Json::array();
  std::int64_t step = history.steps.first().step;
  for (const MadeSteps::Numbers& numbers : history.steps.numbers()) {
    losses.push_back({step, json_number(numbers.loss)});
    norms.push_back({step, json_number(numbers.norm)});
    ++step;
  }
  for (const auto& [after, loss] : history.validation) validation.push_back({after, json_number(loss)});

  const std::vector<std::uint64_t> rss = gather_numbers(world.all(), peak_rss_bytes());
  const std::vector<std::uint64_t> states = gather_numbers(world.all(), setup.plan.bytes.total());
  const auto largest = static_cast<int>(std::max_element(states.begin(), states.end()) - states.begin());
  const Json state_bytes = Json::parse(broadcast_text(
      world.all(), Json{{"planned", bytes_by_kind(setup.plan.bytes)}, {"taken", bytes_by_kind(memory.taken())}}.dump(),
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
      {"peak_rss_bytes", rss},
      {"state_bytes", state_bytes},
      {"comm_bytes_per_step", traffic},
      {"device", device_summary(history)},
      {"params_checksum", params_checksum},
      {"world_size", world.size()},
      {"run", history.lineage.run},
      {"resumed_from", resumed_from(history)},
      {"entropy_rate", setup.dataset.entropy_rate ? Json(*setup.dataset.entropy_rate) : Json(nullptr)},
      {"options", options},
  };
  // JSON must be UTF-8, but a path may contain any bytes.
  const auto dumped = [&] { return summary.dump(1, ' ', false, Json::error_handler_t::replace) + "\n"; };
  on_rank_0(world.all(), [&] { io::write_text_file(fs::path(o.output.dir) / summary_name, dumped()); });
}

}  // namespace shoal::app
