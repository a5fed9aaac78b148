// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "collective.hpp"
#include "shoal/base/error.hpp"
#include "shoal/io/checkpoint.hpp"
#include "verdict.hpp"

namespace shoal::app {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

constexpr const char* metrics_name = "metrics.jsonl";
constexpr const char* summary_name = "summary.json";

/// What a run leaves behind: by these names a used directory is known.
std::vector<fs::path> left_by_a_run(const fs::path& directory) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::directory_iterator(directory)) {
    const std::string name = entry.path().filename();
    if (name == metrics_name || name == summary_name || name == "checkpoints" ||
        (name.starts_with("trace") && name.ends_with(".h5"))) {
      found.push_back(entry.path());
    }
  }
  return found;
}

void make_or_check(const config::OutputOptions& output, bool resuming) {
  const fs::path directory = output.dir;
  std::error_code error;
  fs::create_directories(directory, error);
  require_input(!error && fs::is_directory(directory), "output.dir = ", output.dir, ": cannot be made: ", error.message());
  require_input(access(directory.c_str(), W_OK | X_OK) == 0, "output.dir = ", output.dir, ": not writable");
  const std::vector<fs::path> found = left_by_a_run(directory);
  if (found.empty() || resuming) return;
  require_input(output.overwrite, "output.dir = ", output.dir, " holds another run (", found.front().filename().string(),
                "); allowed: another directory, checkpoint.resume, or --output.overwrite");
  for (const fs::path& path : found) fs::remove_all(path);
}

/// JSON has no NaN.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json bytes_by_kind(const Ledger& ledger) {
  Json result = Json::object();
  for (const Kind kind : kinds) result[name_of(kind)] = ledger[kind];
  return result;
}

Json step_seconds(const std::vector<double>& seconds) {
  if (seconds.empty()) return {{"median", nullptr}, {"mean", nullptr}, {"min", nullptr}, {"max", nullptr}};
  const double mean = std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  const auto [least, most] = std::minmax_element(seconds.begin(), seconds.end());
  return {{"median", median(seconds)}, {"mean", mean}, {"min", *least}, {"max", *most}};
}

/// Gains of the steps that were updates, and where they lead.
Json adascale_summary(const History& history) {
  Json gains = Json::array();
  double effective_steps = 0;
  for (const StepReport& report : history.steps) {
    if (report.gain != 0) gains.push_back({report.step, report.gain});
    effective_steps = report.effective_steps;
  }
  if (gains.empty()) return nullptr;
  return {{"gains", gains}, {"effective_steps", effective_steps}};
}

Json verdict_summary(const Verdict& verdict) {
  return {{"ended", verdict.stopped_early ? "stopped early" : "done"},
          {"exit_code", static_cast<int>(verdict.exit)},
          {"steps_made", verdict.steps_made},
          {"updates_skipped", verdict.updates_skipped},
          {"ok", verdict.ok},
          {"text", verdict.text}};
}

/// Mean bytes per step and operation of the rank that sends most.
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

void open_output(comm::World& world, const config::OutputOptions& output, bool resuming) {
  on_rank_0(world.all(), [&] { make_or_check(output, resuming); });
}

fs::path checkpoint_directory(const config::Options& options) {
  return options.checkpoint.dir.empty() ? fs::path(options.output.dir) / "checkpoints" : fs::path(options.checkpoint.dir);
}

fs::path trace_path(const config::Options& options, std::int64_t first_step) {
  if (!options.trace.file.empty()) return options.trace.file;
  const std::string name = first_step == 0 ? "trace.h5" : text("trace_from_", first_step, ".h5");
  return fs::path(options.output.dir) / name;
}

Metrics::Metrics(comm::World& world, const fs::path& directory, std::int64_t first_step) {
  if (world.all().rank() != 0) return;
  const fs::path path = directory / metrics_name;
  std::vector<std::string> kept;
  if (std::ifstream before(path); before) {
    for (std::string line; std::getline(before, line);) {
      const Json parsed = Json::parse(line, nullptr, false);  // a line that a killed run left unfinished is no line
      if (!parsed.is_discarded() && parsed.value("step", std::int64_t{0}) <= first_step) kept.push_back(line);
    }
  }
  file_.open(path, std::ios::trunc);
  for (const std::string& line : kept) file_ << line << '\n';
  file_.flush();
  require(file_.good(), path.string(), ": cannot be written");
}

void Metrics::write(const StepReport& report, double tokens, std::optional<double> validation) {
  if (!file_.is_open()) return;
  Json line = {{"step", report.step},        {"loss", number(report.loss)}, {"grad_norm", number(report.norm)},
               {"lr", report.learning_rate}, {"step_s", report.seconds},    {"tokens_per_s", tokens / report.seconds}};
  if (validation) line["val_loss"] = number(*validation);
  if (report.gain != 0) line["gain"] = report.gain;
  if (report.gain != 0) line["effective_steps"] = report.effective_steps;
  if (!report.broken.empty()) line["skipped"] = report.broken;
  if (report.loss_scale != 1) line["loss_scale"] = report.loss_scale;
  if (report.overflow) line["skipped"] = "overflow";
  file_ << line.dump() << std::endl;  // flushed: scripts read it while the run goes on
  require(file_.good(), metrics_name, ": cannot be written (is the disk full?)");
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
  std::vector<double> seconds;
  Json losses = Json::array(), norms = Json::array(), validation = Json::array();
  for (const StepReport& report : history.steps) {
    losses.push_back({report.step, number(report.loss)});
    norms.push_back({report.step, number(report.norm)});
    seconds.push_back(report.seconds);
  }
  for (const auto& [step, loss] : history.validation) validation.push_back({step, number(loss)});

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
      {"verdict", verdict_summary(verdict)},
      {"losses", losses},
      {"grad_norms", norms},
      {"val_losses", validation},
      {"adascale", adascale_summary(history)},
      {"final_loss", history.steps.empty() ? Json(nullptr) : number(history.steps.back().loss)},
      {"tokens_per_s", seconds.empty() ? 0.0 : tokens / median(seconds)},
      {"step_s", step_seconds(seconds)},
      {"peak_rss_bytes", rss},
      {"state_bytes", state_bytes},
      {"comm_bytes_per_step", traffic},
      {"params_checksum", params_checksum},
      {"world_size", world.size()},
      {"entropy_rate", setup.dataset.entropy_rate ? Json(*setup.dataset.entropy_rate) : Json(nullptr)},
      {"options", options},
  };
  on_rank_0(world.all(), [&] {
    const fs::path path = fs::path(o.output.dir) / summary_name;
    const fs::path temporary = path.string() + ".partial";
    {
      std::ofstream file(temporary);
      file << summary.dump(1) << '\n';
      file.flush();
      require(file.good(), path.string(), ": cannot be written (is the disk full?)");
    }
    fs::rename(temporary, path);
  });
}

}  // namespace shoal::app
