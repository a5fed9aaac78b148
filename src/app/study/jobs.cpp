// SPDX-License-Identifier: Apache-2.0
#include "jobs.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string_view>

#include "../jobscript.hpp"
#include "../run_record.hpp"
#include "shoal/base/error.hpp"
#include "shoal/config/options.hpp"
#include "shoal/config/value.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

constexpr double any_time_s = 1e9;  // for a run on this machine
constexpr int most_unanswered = 10;

/// Variables that scripts of jobscripts/ take, but not those of a study: they name their program, deck and directory.
constexpr std::array<std::string_view, 6> of_scripts = {"SHOAL",       "SHOAL_DECK",    "SHOAL_OUT",
                                                        "SHOAL_SWEEP", "SHOAL_OPTIONS", "SHOAL_TASK"};
/// Variables by which an MPI library would take a new run for a part of the world of this process.
constexpr std::array<std::string_view, 5> of_launchers = {"PMI", "OMPI_", "HYD", "MPI_LOCAL", "PALS_"};

std::vector<std::string> variables() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view variable = *entry;
    names.emplace_back(variable.substr(0, variable.find('=')));
  }
  return names;
}

/// env -u NAME ...: the variables that the job must not see.
std::vector<std::string> without_variables(Launcher launcher) {
  std::vector<std::string> words = {"env"};
  for (const std::string& name : variables()) {
    const bool of_a_script = std::find(of_scripts.begin(), of_scripts.end(), name) != of_scripts.end();
    const bool of_a_launcher =
        launcher == Launcher::local && std::any_of(of_launchers.begin(), of_launchers.end(),
                                                   [&](std::string_view begin) { return name.starts_with(begin); });
    if (of_a_script || of_a_launcher) words.insert(words.end(), {"-u", name});
  }
  return words;
}

/// The first error of the program in the log, or where to look for it.
std::string problem_in(const fs::path& log) {
  std::ifstream in(log);
  std::string line;
  while (std::getline(in, line)) {
    if (line.starts_with("shoal: ")) return config::shown(line.substr(7));
  }
  return text("no line of the program says why; see ", log.string());
}

/// The script of a run on this machine. Like the scripts of jobscripts/ it resumes if a run was begun.
std::string local_script(const std::string& program, const std::string& deck, const std::string& out, int ranks,
                         std::uint64_t cores) {
  return text("#!/usr/bin/env bash\n# Written by `shoal study`: trains one point of a study on this machine.\n",
              "set -euo pipefail\nout=", quoted(out), "\nagain=()\n", "if [[ -e $out/", run_record_name,
              " ]]; then again=(--checkpoint.resume=latest); fi\n", "export OMP_NUM_THREADS=", cores,
              "\nexec \"${SHOAL_MPIEXEC:-mpiexec}\" -n ", ranks, " ", quoted(program), " train ", quoted(deck),
              " --output.dir=\"$out\" \"${again[@]}\"\n");
}

/// Renames it to NAME.before-N, if it is there.
void set_aside(const fs::path& path) {
  if (!fs::exists(path)) return;
  int number = 1;
  while (fs::exists(text(path.string(), ".before-", number))) ++number;
  fs::rename(path, text(path.string(), ".before-", number));
}

/// FNV-1a. In contrast to std::hash it is the same for every build.
std::uint64_t hash_of(const std::string& words) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : words) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

fs::path whole_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

}  // namespace

StudyJobs::StudyJobs(const StudyRequest& request, StudyResults& results)
    : request_(request), results_(results), queue_(request.launcher), program_(fs::read_symlink("/proc/self/exe")) {}

fs::path StudyJobs::file(std::size_t point, const char* ending) const {
  return whole_path(results_.directory() / "jobs" / (results_.points()[point].name + ending));
}

/// Names of PBS jobs may have 15 characters on older systems.
std::string StudyJobs::job_name(std::size_t point) const {
  const std::string& name = results_.points()[point].name;
  const std::string place = fs::weakly_canonical(results_.directory() / name);
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%09llx", static_cast<unsigned long long>(hash_of(place) >> 28U));
  return text(request_.launcher == Launcher::slurm ? name : "shoal", "-", digits.data());
}

std::vector<std::string> StudyJobs::command(std::size_t point) const {
  const std::string script = file(point, ".sh"), log = file(point, ".log");
  switch (request_.launcher) {
    case Launcher::local: return {"bash", script};
    case Launcher::slurm: return {"sbatch", "--parsable", "--job-name=" + job_name(point), "--output=" + log, script};
    case Launcher::pbs: break;
  }
  // The study itself submits what has not ended, so that it knows the job. PBS passes on only the variables that are named.
  std::string passed = "SHOAL_CHAIN=no";
  for (const std::string& variable : variables()) {
    const bool of_a_script = std::find(of_scripts.begin(), of_scripts.end(), variable) != of_scripts.end();
    if (variable.starts_with("SHOAL_") && !of_a_script && variable != "SHOAL_CHAIN") passed += "," + variable;
  }
  return {"qsub", "-N", job_name(point), "-o", log, "-v", passed, script};
}

std::string StudyJobs::command_text(std::size_t point) const {
  std::string words;
  for (const std::string& word : command(point)) words += (words.empty() ? "" : " ") + quoted(word);
  return words;
}

std::string StudyJobs::script(std::size_t point) const {
  const StudyPoint& planned = results_.points()[point];
  const std::string deck = file(point, ".cfg"), out = whole_path(results_.directory(point));
  if (request_.launcher == Launcher::local) {
    return local_script(program_, deck, out, planned.grid.ranks(), request_.cores_per_rank);
  }
  Job job;
  job.nodes = static_cast<std::uint64_t>(planned.grid.nodes);
  job.ranks_per_node = static_cast<std::uint64_t>(planned.grid.ranks_per_node);
  job.cores_per_rank = request_.cores_per_rank;
  job.seconds = request_.seconds;
  job.rank_bytes = planned.planned.total();
  job.program = program_;
  job.deck = deck;
  job.out = out;
  return script_of(job, request_.launcher == Launcher::slurm ? System::slurm : System::pbs);
}

void StudyJobs::prepare(std::size_t point) {
  const fs::path out = results_.directory(point), log = file(point, ".log");
  if (results_.record(point).state != PointState::interrupted) set_aside(out);
  set_aside(log);  // a log shows that this job has begun
  fs::create_directories(results_.directory() / "jobs");
  io::write_text_file(file(point, ".cfg"), config::print(results_.points()[point].options));
  io::write_text_file(file(point, ".sh"), script(point));
}

void StudyJobs::run(std::size_t point) {
  results_.set(point, PointState::running);
  // The shell keeps this program's pipe open until the run ends, and writes the run's exit code to it.
  std::vector<std::string> words = without_variables(Launcher::local);
  words.insert(words.end(), {"sh", "-c", R"(log=$1; shift; "$@" >"$log" 2>&1; echo $?)", "sh", file(point, ".log")});
  for (const std::string& word : command(point)) words.push_back(word);
  const CommandOutput output = output_of(words, any_time_s);
  const std::string status = output.problem.empty() ? last_line(output.text) : output.problem;
  const bool found = results_.collect(point);
  const bool stopped = status == std::to_string(static_cast<int>(Exit::requeue));
  if (stopped || (found && results_.record(point).state != PointState::running)) {
    if (stopped) results_.set(point, PointState::interrupted);
    return;
  }
  results_.set(point, PointState::failed, "", text("exit code ", status, ": ", problem_in(file(point, ".log"))));
}

/// [Note: submitted once]
void StudyJobs::submit(std::size_t point) {
  const PointRecord before = results_.record(point);
  results_.set(point, PointState::submitting);
  std::vector<std::string> words = without_variables(request_.launcher);
  for (const std::string& word : command(point)) words.push_back(word);
  const CommandOutput output = answer_of(words);
  std::string id = last_line(output.text);
  if (!output.problem.empty() || id.empty()) {
    results_.set(point, before.state, before.job, before.problem);
    fail("`", command_text(point), "`: ", output.problem.empty() ? "no job id" : output.problem,
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
  for (const std::size_t point : points) names.insert(job_name(point));
  const auto jobs = queue_.named(names);
  require(jobs.has_value(), "the batch system does not answer: ", queue_.problem(),
          "; it was asked for jobs that an earlier study submitted, and nothing is submitted before it says so");
  std::vector<std::size_t> found;
  for (const std::size_t point : points) {
    if (const auto job = jobs->find(job_name(point)); job != jobs->end()) {
      results_.set(point, PointState::queued, job->second);
    } else if (results_.record(point).state == PointState::submitting && fs::exists(file(point, ".log"))) {
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
  results_.set(point, PointState::failed, job, text(how, ": ", problem_in(file(point, ".log"))));
}

}  // namespace shoal::app
