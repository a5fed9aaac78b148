// SPDX-License-Identifier: Apache-2.0
#include "app/study/jobs.hpp"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"
#include "shoal/config/value.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

constexpr double any_time_s = 1e9;  // for a run on this machine
constexpr int most_unanswered = 10;

/// The first error of the program in the log, or where to look for it.
std::string problem_in(const fs::path& log) {
  std::ifstream in(log);
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("shoal: ")) return config::shown(line.substr(7));
  }
  return text("no line of the program says why; see ", log.string());
}

/// Renames it to NAME.before-N, if it is there.
void set_aside(const fs::path& path) {
  if (!fs::exists(path)) return;
  int number = 1;
  while (fs::exists(text(path.string(), ".before-", number))) ++number;
  fs::rename(path, text(path.string(), ".before-", number));
}

}  // namespace

StudyJobs::StudyJobs(const StudyRequest& request, StudyResults& results)
    : request_(request), results_(results), commands_(request, results), queue_(request.launcher) {}

void StudyJobs::prepare(std::size_t point) {
  const fs::path out = results_.directory(point), log = commands_.log(point);
  if (results_.record(point).state != PointState::interrupted) set_aside(out);
  set_aside(log);  // a log shows that this job has begun
  fs::create_directories(results_.directory() / "jobs");
  io::write_text_file(commands_.deck(point), config::print(results_.points()[point].options));
  io::write_text_file(commands_.script(point), commands_.script_text(point));
}

void StudyJobs::run(std::size_t point) {
  results_.set(point, PointState::running);
  // The shell keeps this program's pipe open until the run ends, and writes the run's exit code to it.
  std::vector<std::string> words = JobCommands::clean_environment(Launcher::local);
  words.insert(words.end(), {"sh", "-c", R"(log=$1; shift; "$@" >"$log" 2>&1; echo $?)", "sh", commands_.log(point)});
  for (const std::string& word : commands_.command(point)) words.push_back(word);
  const CommandOutput output = output_of(words, any_time_s);
  const std::string status = output.problem.empty() ? last_line(output.text) : output.problem;
  const bool found = results_.collect(point);
  const bool stopped = status == std::to_string(static_cast<int>(Exit::requeue));
  if (stopped) return results_.set(point, PointState::interrupted);
  // The summary of a run that was stopped earlier is no sign that this one was.
  const PointState state = results_.record(point).state;
  if (found && (state == PointState::done || state == PointState::failed)) return;
  results_.set(point, PointState::failed, "", text("exit code ", status, ": ", problem_in(commands_.log(point))));
}

/// [Note: submitted once]
void StudyJobs::submit(std::size_t point) {
  const PointRecord before = results_.record(point);
  results_.set(point, PointState::submitting);
  std::vector<std::string> words = JobCommands::clean_environment(request_.launcher);
  for (const std::string& word : commands_.command(point)) words.push_back(word);
  const CommandOutput output = answer_of(words);
  std::string id = last_line(output.text);
  if (!output.problem.empty() || id.empty()) {
    results_.set(point, before.state, before.job, before.problem);
    fail("`", commands_.command_text(point), "`: ", output.problem.empty() ? "no job id" : output.problem,
         output.text.empty() ? "" : ": ", config::shown(id));
  }
  if (request_.launcher == Launcher::slurm) id = id.substr(0, id.find(';'));  // JOB;CLUSTER
  results_.set(point, PointState::queued, id);
}

void StudyJobs::refresh() {
  std::map<std::string, std::size_t> point_of;
  std::set<std::string> queued;
  for (std::size_t point = 0; point < results_.points().size(); ++point) {
    if (results_.record(point).state != PointState::queued) continue;
    point_of[results_.record(point).job] = point;
    queued.insert(results_.record(point).job);
  }
  if (queued.empty()) return;
  const auto gone = queue_.ended(queued);
  unanswered_ = gone ? 0 : unanswered_ + 1;
  require(unanswered_ < most_unanswered, "the batch system does not answer: ", queue_.problem(),
          "; the jobs are in the results file, and the same command goes on with them");
  if (!gone) return;
  for (const std::string& job : *gone) collect_ended(point_of.at(job), "its job left the queue without results");
}

std::vector<std::size_t> StudyJobs::find(const std::vector<std::size_t>& points) {
  std::set<std::string> names;
  for (const std::size_t point : points) names.insert(commands_.job_name(point));
  const auto jobs = queue_.named(names);
  require(jobs.has_value(), "the batch system does not answer: ", queue_.problem(),
          "; it was asked for jobs that an earlier study submitted, and nothing is submitted before it says so");
  std::vector<std::size_t> found;
  for (const std::size_t point : points) {
    if (const auto job = jobs->find(commands_.job_name(point)); job != jobs->end()) {
      results_.set(point, PointState::queued, job->second);
    } else if (results_.record(point).state == PointState::submitting && fs::exists(commands_.log(point))) {
      collect_ended(point, "its job left the queue without results");
    } else {
      continue;
    }
    found.push_back(point);
  }
  return found;
}

/// A job that ended early is found by its summary; what it left may also be of an earlier job.
void StudyJobs::collect_ended(std::size_t point, const std::string& how) {
  const std::string job = results_.record(point).job;
  results_.set(point, PointState::running, job);
  const bool found = results_.collect(point);
  if (found && results_.record(point).state != PointState::running) return;
  results_.set(point, PointState::failed, job, text(how, ": ", problem_in(commands_.log(point))));
}

}  // namespace shoal::app
