// SPDX-License-Identifier: Apache-2.0
// shoal doctor: checks the ranks, the nodes, the network, the memory and the disk of a job before it trains.
#include "app/doctor/doctor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "app/support/output_paths.hpp"
#include "app/support/own_results.hpp"
#include "app/support/text_table.hpp"
#include "app/support/version.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/printable.hpp"
#include "shoal/config/value.hpp"
#include "shoal/io/text_file.hpp"

namespace shoal::app {

namespace doctor {

namespace {

using Json = nlohmann::ordered_json;

/// phase: what a report says if the check hangs (comm/watchdog.hpp).
struct Check {
  const char* name;
  const char* phase;
  double limit_s;
  Finding (*run)(Subject& subject);
};

constexpr std::array checks = {
    Check{"ranks", "doctor: ranks", 1, check_ranks},
    Check{"cores", "doctor: cores", 1, check_cores},
    Check{"threads", "doctor: threads", 1, check_threads},
    Check{"links within nodes", "doctor: links within nodes", 2, check_inner_links},
    Check{"links between nodes", "doctor: links between nodes", 4, check_outer_links},
    Check{"clocks", "doctor: clocks", 1, check_clocks},
    Check{"memory", "doctor: memory", 1, check_memory},
    Check{"disk", "doctor: disk", 4, check_disk},
    Check{"MPI-IO", "doctor: MPI-IO", 4, check_mpi_io},
    Check{"file locks", "doctor: file locks", 1, check_locks},
    Check{"HDF5", "doctor: HDF5", 1, check_hdf5},
    Check{"GPUs", "doctor: GPUs", 2, check_device},
};

struct Row {
  const Check* check;
  Finding finding;
  double seconds;
};

/// An error of a check, the same on all ranks, is a finding of it.
Row run(const Check& check, Subject& subject) {
  heartbeat::phase(check.phase);
  subject.limit_s = check.limit_s;
  const auto begin = std::chrono::steady_clock::now();
  Row row{&check, {}, 0};
  try {
    row.finding = check.run(subject);
  } catch (const Error& error) {
    if (error.seen() != Seen::everywhere) throw;
    row.finding = {Grade::fail, error.what(), "", {}};
  }
  subject.world.all().barrier().wait();
  row.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (row.finding.grade != Grade::fail && row.seconds > 2 * check.limit_s + 1) {
    row.finding.worse(Grade::warn, text("this check took ", static_cast<int>(row.seconds), " s"));
  }
  return row;
}

Json json_of(const std::vector<Row>& rows, const comm::World& world) {
  Json list = Json::array();
  bool ok = true;
  for (const Row& row : rows) {
    ok = ok && row.finding.grade != Grade::fail;
    list.push_back({{"name", row.check->name},
                    {"verdict", name_of(row.finding.grade)},
                    {"found", row.finding.found},
                    {"advice", row.finding.advice},
                    {"seconds", row.seconds},
                    {"values", row.finding.values}});
  }
  return {{"format", "shoal-doctor"},
          {"format_version", 1},
          {"version", version()},
          {"ranks", world.size()},
          {"nodes", world.nodes()},
          {"hosts", world.topology().hosts},
          {"ok", ok},
          {"checks", list}};
}

void print_row(std::FILE* to, const Row& row) {
  const std::string verdict(name_of(row.finding.grade));
  std::fprintf(to, "  %-19s  %-4s  %s\n", row.check->name, verdict.c_str(), printable(row.finding.found).c_str());
  if (!row.finding.advice.empty()) std::fprintf(to, "  %-19s        -> %s\n", "", printable(row.finding.advice).c_str());
  std::fflush(to);
}

/// The directory of --dir, or of the options; "." if nothing is there yet, since it would be created there.
std::filesystem::path directory_of(const config::Invocation& invocation) {
  namespace fs = std::filesystem;
  const auto& given = invocation.own<std::string>("dir");
  fs::path directory = given.empty() ? checkpoint_directory(invocation.options) : fs::path(given);
  if (!given.empty()) return directory;
  std::error_code error;
  while (!fs::is_directory(directory, error)) {
    directory = directory.has_parent_path() && directory.parent_path() != directory ? directory.parent_path() : ".";
  }
  return directory;
}

void write_json(const std::filesystem::path& file, const Json& json) {
  if (file.empty()) return;
  const std::string content = json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (file == "-") {
    std::fputs(content.c_str(), stdout);
    return;
  }
  io::write_text_file(file, content);
}

Exit examine(comm::World& world, config::Invocation& invocation) {
  const std::filesystem::path json = invocation.own<std::string>("json");
  on_rank_0(world.all(), [&] {
    if (json != "-") require_result("--json ", json, own_doctor(), invocation.options.output.overwrite);
  });
  const bool prints = world.rank() == 0;
  std::FILE* const to = json == "-" ? stderr : stdout;
  Subject subject{world, invocation.options, broadcast_text(world.all(), directory_of(invocation).string(), 0)};
  if (prints) {
    std::fprintf(to, "# shoal %s: doctor\n# %-19s  %-4s  %s\n", version().c_str(), "check", "",
                 "what was found, and what to change");
  }
  std::vector<Row> rows;
  for (const Check& check : checks) {
    rows.push_back(run(check, subject));
    if (prints) print_row(to, rows.back());
  }
  const auto count = [&](Grade grade) {
    return std::count_if(rows.begin(), rows.end(), [&](const Row& row) { return row.finding.grade == grade; });
  };
  std::uint64_t fails = static_cast<std::uint64_t>(count(Grade::fail));
  if (prints) {
    std::fprintf(to, "# %s, %s\n", counted(static_cast<std::size_t>(fails), "failure").c_str(),
                 counted(static_cast<std::size_t>(count(Grade::warn)), "warning").c_str());
  }
  on_rank_0(world.all(), [&] { write_json(json, json_of(rows, world)); });
  world.all().broadcast(comm::bytes_of(Span<std::uint64_t>(&fails, 1)), 0).wait();  // the findings are rank 0's
  return fails == 0 ? Exit::done : Exit::failed;
}

}  // namespace

void Finding::worse(Grade to, const std::string& what_to_change) {
  grade = std::max(grade, to);
  if (!what_to_change.empty()) advice += (advice.empty() ? "" : "; ") + what_to_change;
}

std::string first_problem(comm::World& world, const std::string& mine) {
  comm::Communicator& all = world.all();
  std::int64_t first = mine.empty() ? world.size() : all.rank();
  all.all_reduce(Span<std::int64_t>(&first, 1), comm::Reduce::min).wait();
  if (first == world.size()) return {};
  const std::string& host = world.topology().hosts[static_cast<std::size_t>(first)];
  return text("rank ", first, " (", host, "): ", broadcast_text(all, mine, static_cast<int>(first)));
}

std::vector<double> gather(comm::World& world, double mine) {
  std::vector<double> all(static_cast<std::size_t>(world.size()));
  world.all().all_gather(comm::bytes_of(Span<double>(&mine, 1)), comm::bytes_of(Span<double>(all))).wait();
  return all;
}

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::string rate_text(double bytes_per_s) { return fixed(bytes_per_s * 1e-6, 0) + " MB/s"; }

}  // namespace doctor

Command doctor_command() {
  using config::any;
  return {.spec = {.name = "doctor",
                   .summary = "check ranks, cores, network, memory and disk before a job trains",
                   .arguments = {"[DECK]"},
                   .checks = false,
                   .own = {{"dir", std::string{}, "", any().as("a directory"),
                            "where to try the disk; default: checkpoint.dir, or checkpoints in output.dir"},
                           {"json", std::string{}, "", any().as("the path of a new file, or -"),
                            "write all findings; -: to standard output, and the table to standard error"}}},
          .run = doctor::examine,
          .one_may_run = true,
          .longest_silence_s = 30};
}

}  // namespace shoal::app
