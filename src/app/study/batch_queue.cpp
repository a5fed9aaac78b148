// SPDX-License-Identifier: Apache-2.0
#include "app/study/batch_queue.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>

#include "shoal/base/error.hpp"
#include "shoal/config/value.hpp"

namespace shoal::app {

namespace {

constexpr double longest_answer_s = 60;  // for an answer

/// The lines that are not empty, without spaces around them.
std::vector<std::string> lines_of(std::string_view output) {
  std::vector<std::string> lines;
  while (!output.empty()) {
    const std::size_t end = std::min(output.find('\n'), output.size());
    const std::string line(config::trimmed(output.substr(0, end), " \t\r"));
    if (!line.empty()) lines.push_back(line);
    output.remove_prefix(std::min(end + 1, output.size()));
  }
  return lines;
}

/// qstat of OpenPBS and PBS Professional (153, 35), and of Torque (153).
bool is_unknown_to_pbs(const CommandOutput& output) {
  return output.problem == "ended with exit code 153" || output.problem == "ended with exit code 35";
}

}  // namespace

CommandOutput answer_of(const std::vector<std::string>& command) {
  std::vector<std::string> words = {"sh", "-c", "exec \"$@\" 2>&1", "sh"};
  words.insert(words.end(), command.begin(), command.end());
  return output_of(words, longest_answer_s);
}

std::string last_line(std::string_view output) {
  output = config::trimmed(output, " \t\r\n");
  const std::size_t end = output.rfind('\n');
  return std::string(end == std::string_view::npos ? output : output.substr(end + 1));
}

bool BatchQueue::answers(const char* program, const CommandOutput& output, bool is_answer) {
  problem_ = is_answer ? "" : text("`", program, "`: ", output.problem, ": ", config::shown(last_line(output.text)));
  return is_answer;
}

std::optional<std::map<std::string, std::string>> BatchQueue::jobs_of_slurm() {
  const CommandOutput output = answer_of({"squeue", "--me", "--noheader", "--format=%A %j"});
  if (!answers("squeue", output, output.problem.empty())) return std::nullopt;
  std::map<std::string, std::string> jobs;
  for (const std::string& line : lines_of(output.text)) {
    const std::size_t space = std::min(line.find(' '), line.size());
    jobs[line.substr(0, space)] = config::trimmed(std::string_view(line).substr(space));
  }
  return jobs;
}

std::optional<bool> BatchQueue::ended_in_pbs(const std::string& job) {
  const CommandOutput output = answer_of({"qstat", "-f", job});
  const bool unknown = is_unknown_to_pbs(output);
  if (!answers("qstat", output, output.problem.empty() || unknown)) return std::nullopt;
  const std::string_view finished = "FCX";  // of the states of PBS and Torque
  return unknown || std::any_of(finished.begin(), finished.end(), [&](char state) {
           return output.text.find(std::string("job_state = ") + state) != std::string::npos;
         });
}

std::optional<std::set<std::string>> BatchQueue::ended(const std::set<std::string>& jobs) {
  std::set<std::string> gone;
  if (launcher_ == Launcher::slurm) {
    const auto alive = jobs_of_slurm();
    if (!alive) return std::nullopt;
    std::copy_if(jobs.begin(), jobs.end(), std::inserter(gone, gone.end()),
                 [&](const std::string& job) { return !alive->contains(job); });
    return gone;
  }
  for (const std::string& job : jobs) {
    const std::optional<bool> has_ended = ended_in_pbs(job);
    if (!has_ended) return std::nullopt;
    if (*has_ended) gone.insert(job);
  }
  return gone;
}

std::optional<std::map<std::string, std::string>> BatchQueue::named(const std::set<std::string>& names) {
  std::map<std::string, std::string> found;
  if (launcher_ == Launcher::slurm) {
    const auto jobs = jobs_of_slurm();
    if (!jobs) return std::nullopt;
    for (const auto& [id, name] : *jobs) {
      if (names.contains(name)) found[name] = id;
    }
    return found;
  }
  for (const std::string& name : names) {
    const CommandOutput output = answer_of({"qselect", "-N", name});
    if (!answers("qselect", output, output.problem.empty())) return std::nullopt;
    if (const std::vector<std::string> ids = lines_of(output.text); !ids.empty()) found[name] = ids.back();
  }
  return found;
}

}  // namespace shoal::app
