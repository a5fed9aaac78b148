// SPDX-License-Identifier: Apache-2.0
#include "app/train/metrics.hpp"

#include <fstream>
#include <nlohmann/json.hpp>

#include "app/support/bytes_json.hpp"
#include "app/support/collective.hpp"
#include "app/support/output_paths.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"

namespace shoal::app {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

namespace {

/// Returns the step of a line of metrics.jsonl that an earlier run wrote; nothing if a killed run left the line incomplete.
std::optional<std::int64_t> step_of_line(const std::string& line, bool ended, const std::string& place) {
  const Json parsed = Json::parse(line, nullptr, false);
  if (parsed.is_discarded() && !ended) return std::nullopt;
  const bool good = parsed.is_object() && parsed.contains("step") && parsed.at("step").is_number_integer();
  require_input(good, place, ": not a line of a run's metrics (a JSON object with a whole number \"step\")");
  return parsed.at("step").get<std::int64_t>();
}

}  // namespace

void for_lines_until(const fs::path& metrics, std::int64_t last_step,
                     const std::function<void(const std::string& line, std::int64_t step)>& handle) {
  if (!fs::exists(metrics)) return;
  std::ifstream in(metrics);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const auto step = step_of_line(line, !in.eof(), text(metrics.string(), ":", number));
    if (step && *step <= last_step) handle(line, *step);
  }
  require(in.eof(), metrics.string(), ": cannot be read");
}

Metrics::Metrics(comm::World& world, const fs::path& directory, std::int64_t first_step) {
  const fs::path path = directory / metrics_name;
  on_rank_0(world.all(), [&] {
    const bool empty = fs::exists(path) && fs::is_empty(path);
    file_ = io::LineFile(path, [&](const io::LineFile::Add& add) {
      for_lines_until(path, first_step, [&](const std::string& line, std::int64_t step) {
        add(line);
        last_ = step;
        const Json seconds = Json::parse(line).value("step_s", Json());
        if (seconds.is_number()) earlier_.push_back({step, seconds.get<double>()});
      });
    });
    if ((last_ == 0 && !empty) || last_ >= first_step) return;
    output::print(text("# warning: ", path.string(), " has no lines of steps ", last_ + 1, " to ", first_step,
                       ", which are in the checkpoint\n"));
  });
}

void Metrics::require_there() const {
  if (file_.is_open()) file_.require_there();
}

void Metrics::write(const StepReport& report, double tokens, std::optional<double> validation) {
  if (!file_.is_open() || !problem_.empty() || report.step < last_) return;
  Json line = {{"step", report.step},        {"loss", json_number(report.loss)}, {"grad_norm", json_number(report.norm)},
               {"lr", report.learning_rate}, {"step_s", report.seconds},         {"tokens_per_s", tokens / report.seconds}};
  if (validation) line["val_loss"] = json_number(*validation);
  if (report.gain != 0) line["gain"] = report.gain;
  if (report.gain != 0) line["effective_steps"] = report.effective_steps;
  if (!report.broken.empty()) line["skipped"] = report.broken;
  if (report.loss_scale != 1) line["loss_scale"] = report.loss_scale;
  if (report.overflow) line["skipped"] = "overflow";
  try_to([&] {
    if (report.step > last_) file_.append(line.dump());
    if (report.step == last_ && validation) file_.replace_last(line.dump());
    last_ = report.step;
  });
}

void Metrics::sync() {
  if (file_.is_open() && problem_.empty()) try_to([&] { file_.sync(); });
}

template <typename Write>
void Metrics::try_to(const Write& write) {
  try {
    write();
  } catch (const Error& error) {
    problem_ = error.what();
  }
}

void Metrics::require_written() const { require(problem_.empty(), problem_); }

}  // namespace shoal::app
