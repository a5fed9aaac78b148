// SPDX-License-Identifier: Apache-2.0
#include "app/train/time_left.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "app/support/command_output.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/value.hpp"
#include "shoal/config/wall_time.hpp"

namespace shoal::app {

namespace {

constexpr double most_wait_s = 10;

std::string_view without_spaces(std::string_view text) { return config::trimmed(text, " \t\r\n"); }

TimeLeft unreadable(std::string_view answer) {
  return {{}, {}, text("answered \"", config::shown(without_spaces(answer)), "\", which is not understood")};
}

/// The value after "NAME = " in a line of its own.
std::string_view value_of(std::string_view answer, std::string_view name) {
  while (!answer.empty()) {
    const std::size_t end = std::min(answer.find('\n'), answer.size());
    const std::string_view line = answer.substr(0, end);
    answer.remove_prefix(std::min(end + 1, answer.size()));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos && without_spaces(line.substr(0, equals)) == name)
      return without_spaces(line.substr(equals + 1));
  }
  return {};
}

TimeLeft read_end(const std::string& variable, std::string_view value) {
  long long end = 0;
  const auto [stop, status] = std::from_chars(value.data(), value.data() + value.size(), end);
  if (status != std::errc() || stop != value.data() + value.size())
    return {{}, variable, text(variable, " = ", config::shown(value), " is not a number of seconds since 1970")};
  return {static_cast<double>(end) - static_cast<double>(std::time(nullptr)), variable, {}};
}

/// The task of an array that started last has the number of the array, for which squeue answers with a line for each task.
/// The other tasks have numbers of their own. (A job that was submitted from a task inherits the variables of that array.)
std::string slurm_job(std::string number) {
  const char* const array = std::getenv("SLURM_ARRAY_JOB_ID");
  const char* const task = std::getenv("SLURM_ARRAY_TASK_ID");
  if (array != nullptr && task != nullptr && number == array) number += text("_", task);
  return number;
}

template <typename Read>
TimeLeft ask(const std::vector<std::string>& command, const Read& read) {
  std::string words;
  for (const std::string& word : command) words += (words.empty() ? "" : " ") + word;
  const CommandOutput output = output_of(command, most_wait_s);
  TimeLeft left = output.problem.empty() ? read(output.text) : TimeLeft{{}, {}, output.problem};
  left.source = words;
  if (!left.problem.empty()) left.problem = text("`", words, "`: ", left.problem);
  return left;
}

}  // namespace

TimeLeft read_squeue(std::string_view answer) {
  const std::string_view word = without_spaces(answer);
  if (word == "UNLIMITED") return {};
  const auto seconds = config::wall_time(word);
  return seconds ? TimeLeft{static_cast<double>(*seconds), {}, {}} : unreadable(answer);
}

TimeLeft read_qstat(std::string_view answer, long now) {
  const std::string_view limit = value_of(answer, "Resource_List.walltime");
  if (limit.empty() && answer.find("Job Id") != std::string_view::npos) return {};
  const auto walltime = config::wall_time(limit);
  if (!walltime) return unreadable(limit.empty() ? answer : limit);
  double used = static_cast<double>(config::wall_time(value_of(answer, "resources_used.walltime")).value_or(0));
  std::tm since{};
  since.tm_isdst = -1;
  const std::string begin(value_of(answer, "stime"));  // "Tue Nov 24 20:15:02 2026", in local time
  const char* const end = strptime(begin.c_str(), "%a %b %d %H:%M:%S %Y", &since);
  if (end != nullptr && *end == '\0') used = std::max(used, static_cast<double>(now - std::mktime(&since)));
  return {static_cast<double>(*walltime) - used, {}, {}};
}

TimeLeft time_left() {
  if (const char* const end = std::getenv("SHOAL_JOB_END_TIME")) return read_end("SHOAL_JOB_END_TIME", end);
  if (const char* const job = std::getenv("SLURM_JOB_ID")) {
    if (const char* const end = std::getenv("SLURM_JOB_END_TIME")) return read_end("SLURM_JOB_END_TIME", end);
    return ask({"squeue", "-h", "-j", slurm_job(job), "-o", "%L"}, read_squeue);
  }
  if (const char* const job = std::getenv("PBS_JOBID")) {
    return ask({"qstat", "-f", job}, [](std::string_view answer) { return read_qstat(answer, std::time(nullptr)); });
  }
  return {{}, {}, "there is no batch job: none of SLURM_JOB_ID, PBS_JOBID and SHOAL_JOB_END_TIME is set"};
}

}  // namespace shoal::app
