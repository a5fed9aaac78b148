// SPDX-License-Identifier: Apache-2.0
#include "app/study/results.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/checkpoint/run_record.hpp"
#include "app/study/json.hpp"
#include "app/study/points.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/version.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/value.hpp"
#include "shoal/io/text_file.hpp"
#include "shoal/kernels/runtime.hpp"

namespace shoal::app {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

namespace {

constexpr const char* study_format = "shoal-study";
constexpr int study_format_version = 1;

/// The first option of `wanted` that has another value in `found`; empty if there is none.
std::string first_difference(const std::map<std::string, std::string>& wanted, const OrderedJson& found) {
  for (const auto& [name, value] : wanted) {
    const bool there = found.is_object() && found.contains(name) && found.at(name).is_string();
    const std::string other = there ? found.at(name).get<std::string>() : std::string("not there");
    if (!there || other != value)
      return text(name, " = ", config::shown(other), " there, ", config::shown(value), " in this study");
  }
  return {};
}

OrderedJson parsed(const fs::path& file) {
  const std::string content = io::read_text_file(file);
  OrderedJson json = OrderedJson::parse(content, nullptr, false);
  require_input(json.is_object(), file.string(), ": is no JSON object; allowed: another output.dir, or remove the file");
  return json;
}

void require_version(const fs::path& file, const OrderedJson& json) {
  const bool there = json.contains("version") && json.at("version").is_string();
  const std::string found = there ? json.at("version").get<std::string>() : std::string("an older version");
  require_input(found == version(), file.string(), ": results of shoal ", config::shown(found), ", and this is ", version(),
                "; allowed: another output.dir, or the program of that version");
}

bool is_entry_of(const StudyPoint& point, const OrderedJson& found) {
  return found.at("strategy") == point.strategy && found.at("nodes") == point.grid.nodes &&
         found.at("ranks_per_node") == point.grid.ranks_per_node && found.at("micro") == point.options.batch.micro &&
         found.at("global") == point.options.batch.global && found.at("repeat") == point.repeat;
}

std::string host() {
  std::array<char, 256> name{};
  return gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

struct StudyResults::Json {
  std::string deck;
  std::map<std::string, std::string> deck_options;
  std::vector<OrderedJson> measured;   ///< by point; null if it is not done
  std::vector<OrderedJson> left_over;  ///< entries of points that the study does not have now
};

StudyResults::StudyResults(fs::path directory, const config::Invocation& study, const StudyRequest& request,
                           std::vector<StudyPoint> points)
    : directory_(std::move(directory)), request_(request), points_(std::move(points)), json_(std::make_unique<Json>()) {
  records_.resize(points_.size());
  json_->deck = study.deck;
  json_->deck_options = identity_of(study.options);
  json_->measured.resize(points_.size());
  if (fs::exists(directory_ / study_name)) read_file();
  for (std::size_t point = 0; point < points_.size(); ++point) {
    const bool found = read_summary(point);
    PointRecord& record = records_[point];
    if (found) continue;
    if (record.state == PointState::done) record = {};  // its summary was removed
    const bool begun = fs::exists(this->directory(point) / run_record_name);
    const bool unknown = record.state == PointState::waiting && begun && !fs::exists(directory_ / study_name);
    // The file is lost, or a run on this machine was interrupted together with its study.
    if (record.state == PointState::running || unknown) record.state = PointState::interrupted;
  }
}

StudyResults::~StudyResults() = default;

void StudyResults::read_file() {
  const fs::path file = directory_ / study_name;
  const OrderedJson json = parsed(file);
  require_input(json.contains("format") && json.at("format") == study_format, file.string(),
                ": no results of `shoal study`; allowed: another output.dir");
  require_version(file, json);
  try {
    require_input(json.at("format_version") == study_format_version, file.string(), ": format_version ",
                  json.at("format_version").dump(), "; this program reads ", study_format_version);
    std::string difference = first_difference(json_->deck_options, json.at("options"));
    const OrderedJson& asked = json.at("study");
    const std::map<std::string, std::string> wanted = {{"system", name_of(request_.launcher)},
                                                       {"micro", name_of(request_.micro)},
                                                       {"cores_per_rank", std::to_string(request_.cores_per_rank)}};
    if (difference.empty()) difference = first_difference(wanted, asked);
    if (wanted.contains(difference.substr(0, difference.find(' ')))) difference = "study." + difference;
    require_input(difference.empty(), file.string(), ": results of another study: ", difference,
                  "; allowed: another output.dir");
    for (const OrderedJson& found : json.at("points")) read_point(found);
  } catch (const nlohmann::json::exception& error) {
    bad_input(file.string(), ": is damaged: ", error.what(), "; allowed: remove it; the study then reads the summaries");
  }
}

/// An entry of the file. It is a point's because it has the point's strategy, ranks and batch; its name is where its results
/// are, which may have been chosen by another rule.
void StudyResults::read_point(const OrderedJson& found) {
  const auto name = found.at("name").get<std::string>(), strategy = found.at("strategy").get<std::string>();
  // It becomes a directory below output.dir.
  require_input(!name.empty() && name != "." && name != ".." && fs::path(name).filename() == name,
                (directory_ / study_name).string(), ": point ", config::shown(name),
                ": not the name of a directory; allowed: a name without /, except . and ..");
  const auto here = std::find_if(points_.begin(), points_.end(), [&](const auto& p) { return is_entry_of(p, found); });
  const auto named = std::find_if(points_.begin(), points_.end(), [&](const auto& p) { return p.name == name; });
  require_input(named == points_.end() || named == here, (directory_ / study_name).string(), ": point ", config::shown(name),
                " is of strategy ", config::shown(strategy), " there, and of ",
                named == points_.end() ? "" : config::shown(named->strategy), " in this study; allowed: another output.dir");
  if (here == points_.end()) {
    left_over_.push_back(name);
    json_->left_over.push_back(found);
    return;
  }
  here->name = name;
  PointRecord& record = records_[static_cast<std::size_t>(here - points_.begin())];
  const auto state = value_named<PointState>(found.at("state").get<std::string>());
  require_input(state.has_value(), (directory_ / study_name).string(), ": point ", config::shown(name), ": no such state");
  record.state = *state;
  if (!found.at("job").is_null()) record.job = found.at("job").get<std::string>();
  record.problem = found.at("problem").get<std::string>();
}

bool StudyResults::read_summary(std::size_t point) {
  const fs::path file = directory(point) / summary_name;
  if (!fs::exists(file)) return false;
  const OrderedJson summary = parsed(file);
  require_version(file, summary);
  try {
    const std::string difference = first_difference(identity_of(points_[point].options), summary.at("options"));
    require_input(difference.empty(), file.string(), ": the results of another run: ", difference,
                  "; allowed: another output.dir");
    require_input(summary.at("world_size") == points_[point].grid.ranks(), file.string(),
                  ": the results of another run: of ", counted(summary.at("world_size").get<int>(), "rank"),
                  ", and this point has ", points_[point].grid.ranks(), "; allowed: another output.dir");
    // A run that goes on from a checkpoint leaves the summary of the run before it as it is until it ends.
    const std::optional<RunRecord> begun = read_run_record(directory(point));
    if (begun && summary.contains("run") && summary.at("run") != begun->lineage.run) return false;
    PointRecord& record = records_[point];
    const OrderedJson& verdict = summary.at("verdict");
    if (verdict.at("ended") != "done") {
      // Its job may already be in the queue again, or running; or the run that went on from there has failed.
      const bool keeps =
          record.state == PointState::queued || record.state == PointState::submitting || record.state == PointState::failed;
      if (!keeps) record.state = PointState::interrupted;
      return true;
    }
    if (!verdict.at("ok").get<bool>()) {
      record.state = PointState::failed;
      record.problem = verdict.at("text").get<std::string>();
      return true;
    }
    // The summary's run may have had nothing to do: the one before it was killed after its last step.
    require_input(summary.contains("settled"), file.string(),
                  ": names no settled steps: of an older version; allowed: remove it, and this point is run again");
    const fs::path metrics = directory(point) / metrics_name;
    json_->measured[point] = measured_json(summary, read_metrics(metrics), points_[point]);
    const OrderedJson& m = json_->measured[point];
    if (m.is_null()) {
      record.state = PointState::failed;
      record.problem = text(verdict.at("text").get<std::string>(), ", and ", metrics.string(), " has no steps");
      return true;
    }
    record.state = PointState::done;
    record.problem.clear();
    record.measured = Measured{m.at("step_s").at("mean"), m.at("memory_bytes"), m.at("node_seconds_per_token")};
    return true;
  } catch (const nlohmann::json::exception& error) {
    bad_input(file.string(), ": is damaged: ", error.what(), "; allowed: remove it, and this point is run again");
  }
}

void StudyResults::set(std::size_t point, PointState state, const std::string& job, const std::string& problem) {
  records_[point].state = state;
  records_[point].job = job;
  records_[point].problem = problem;
  write();
}

void StudyResults::set_not_submitted(std::size_t point) {
  const bool begun = fs::exists(directory(point) / run_record_name);
  set(point, begun ? PointState::interrupted : PointState::waiting);
}

bool StudyResults::collect(std::size_t point) {
  const PointState before = records_[point].state;
  const bool found = read_summary(point);
  if (records_[point].state != before) write();
  return found;
}

OrderedJson StudyResults::json_of(std::size_t index) const {
  const StudyPoint& point = points_[index];
  const PointRecord& record = records_[index];
  OrderedJson json = app::json_of(point);
  json.update({{"repeat", point.repeat},
               {"micro", point.options.batch.micro},
               {"global", point.options.batch.global},
               {"tokens_per_step", point.tokens()},
               {"same_trajectory", point.same_trajectory},
               {"options", changed_options(point, json_->deck_options)},
               {"limit_bytes", point.limit},
               {"predicted", predicted_json(point)},
               {"state", name_of(record.state)},
               {"job", record.job.empty() ? OrderedJson(nullptr) : OrderedJson(record.job)},
               {"problem", record.problem},
               {"measured", json_->measured[index]}});
  return json;
}

void StudyResults::write() const {
  OrderedJson points = OrderedJson::array();
  for (std::size_t point = 0; point < points_.size(); ++point) points.push_back(json_of(point));
  for (const OrderedJson& point : json_->left_over) points.push_back(point);
  const OrderedJson json = {{"format", study_format},
                            {"format_version", study_format_version},
                            {"version", version()},
                            {"deck", json_->deck},
                            {"machine", {{"host", host()}, {"device", kernels::device_name()}}},
                            {"study",
                             {{"system", name_of(request_.launcher)},
                              {"micro", name_of(request_.micro)},
                              {"cores_per_rank", std::to_string(request_.cores_per_rank)},
                              {"scalings", app::json_of(request_.scalings)},
                              {"network", request_.network}}},
                            {"options", json_->deck_options},
                            {"points", points}};
  // JSON must be UTF-8, but a path may contain any bytes.
  io::write_text_file(directory_ / study_name, json.dump(1, ' ', false, OrderedJson::error_handler_t::replace) + "\n");
}

}  // namespace shoal::app
