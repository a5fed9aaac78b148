// SPDX-License-Identifier: Apache-2.0
#include "app/study/job_commands.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include "app/checkpoint/run_record.hpp"
#include "app/jobscript/jobscript.hpp"
#include "app/support/shell_words.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/hash.hpp"
#include "shoal/data/tokens.hpp"

namespace shoal::app {

namespace fs = std::filesystem;

namespace {

/// Variables by which a user sets up a script of jobscripts/. A study's scripts must not see them: they have a program and
/// its device, a deck and a directory of their own.
constexpr std::array<std::string_view, 7> of_scripts = {"SHOAL",         "SHOAL_DECK", "SHOAL_OUT", "SHOAL_SWEEP",
                                                        "SHOAL_OPTIONS", "SHOAL_TASK", "SHOAL_GPUS"};
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

bool is_of_scripts(std::string_view variable) {
  return std::find(of_scripts.begin(), of_scripts.end(), variable) != of_scripts.end();
}

/// The script of a run on this machine. Like the scripts of jobscripts/ it resumes if a run was begun.
std::string local_script(const std::string& program, const std::string& deck, const std::string& out, int ranks,
                         std::uint64_t cores) {
  return text("#!/usr/bin/env bash\n# Written by `shoal study`: trains one point of a study on this machine.\n",
              "set -euo pipefail\nout=", shell_word(out), "\nagain=()\n", "if [[ -e $out/", run_record_name,
              " ]]; then again=(--checkpoint.resume=latest); fi\n", "export OMP_NUM_THREADS=", cores,
              "\n# SLURM_NTASKS counts the tasks of the job in which the study runs, not of this run. mpiexec may need it.",
              "\nexec \"${SHOAL_MPIEXEC:-mpiexec}\" -n ", ranks, " env -u SLURM_NTASKS ", shell_word(program), " train ",
              shell_word(deck), " --output.dir=\"$out\" \"${again[@]}\"\n");
}

fs::path whole_path(const fs::path& path) { return fs::absolute(path).lexically_normal(); }

}  // namespace

JobCommands::JobCommands(const StudyRequest& request, const StudyResults& results)
    : request_(request), results_(results), program_(fs::read_symlink("/proc/self/exe")) {}

fs::path JobCommands::file(std::size_t point, const char* ending) const {
  return whole_path(results_.directory() / "jobs" / (results_.points()[point].name + ending));
}

/// Names of PBS jobs may have 15 characters on older systems.
std::string JobCommands::job_name(std::size_t point) const {
  const std::string& name = results_.points()[point].name;
  const std::string place = fs::weakly_canonical(results_.directory() / name);
  std::array<char, 17> digits{};
  std::snprintf(digits.data(), digits.size(), "%09llx", static_cast<unsigned long long>(hash_of(place) >> 28U));
  return text(request_.launcher == Launcher::slurm ? name : "shoal", "-", digits.data());
}

std::vector<std::string> JobCommands::command(std::size_t point) const {
  const std::string script = this->script(point), log = this->log(point);
  switch (request_.launcher) {
    case Launcher::local: return {"bash", script};
    case Launcher::slurm: return {"sbatch", "--parsable", "--job-name=" + job_name(point), "--output=" + log, script};
    case Launcher::pbs: break;
  }
  // The study itself submits what has not ended, so that it knows the job. PBS passes on only the variables that are named.
  std::string passed = "SHOAL_CHAIN=no";
  for (const std::string& variable : variables()) {
    if (variable.starts_with("SHOAL_") && !is_of_scripts(variable) && variable != "SHOAL_CHAIN") passed += "," + variable;
  }
  return {"qsub", "-N", job_name(point), "-o", log, "-v", passed, script};
}

std::string JobCommands::command_text(std::size_t point) const {
  std::string words;
  for (const std::string& word : command(point)) words += (words.empty() ? "" : " ") + shell_word(word);
  return words;
}

std::string JobCommands::script_text(std::size_t point) const {
  const StudyPoint& planned = results_.points()[point];
  const std::string deck = this->deck(point), out = whole_path(results_.directory(point));
  if (request_.launcher == Launcher::local) {
    return local_script(program_, deck, out, planned.grid.ranks(), request_.cores_per_rank);
  }
  Job job;
  job.nodes = static_cast<std::uint64_t>(planned.grid.nodes);
  job.ranks_per_node = static_cast<std::uint64_t>(planned.grid.ranks_per_node);
  job.cores_per_rank = request_.cores_per_rank;
  job.seconds = request_.seconds;
  job.rank_bytes = host_bytes(planned.planned, device::kind());
  job.text_bytes = data::text_bytes(planned.options.data, planned.options.model.vocab_size);
  job.program = program_;
  job.deck = deck;
  job.out = out;
  return script_of(job, request_.launcher == Launcher::slurm ? System::slurm : System::pbs);
}

/// env -u NAME ...
std::vector<std::string> JobCommands::clean_environment(Launcher launcher) {
  std::vector<std::string> words = {"env"};
  for (const std::string& name : variables()) {
    const bool of_a_launcher =
        launcher == Launcher::local && std::any_of(of_launchers.begin(), of_launchers.end(),
                                                   [&](std::string_view begin) { return name.starts_with(begin); });
    if (is_of_scripts(name) || of_a_launcher) words.insert(words.end(), {"-u", name});
  }
  return words;
}

}  // namespace shoal::app
