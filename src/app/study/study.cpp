// SPDX-License-Identifier: Apache-2.0
// shoal study: runs a deck on several numbers of nodes with several strategies, and collects what was measured beside what
// the plan predicts. Everything is checked before the first run; what is done is not repeated.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

#include "app/checkpoint/run_record.hpp"
#include "app/study/jobs.hpp"
#include "app/study/points.hpp"
#include "app/study/request.hpp"
#include "app/study/results.hpp"
#include "app/study/simulation.hpp"
#include "app/study/table.hpp"
#include "app/support/collective.hpp"
#include "app/support/command.hpp"
#include "shoal/base/counted.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/io/directory_lock.hpp"
#include "shoal/io/target.hpp"

namespace shoal::app {

namespace {

namespace fs = std::filesystem;

void pause(double seconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    heartbeat::beat();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

void say(const std::string& line) {
  std::printf("# %s\n", line.c_str());
  std::fflush(stdout);
}

/// The study's directory may hold a study, but not a run.
void require_directory(const fs::path& directory) {
  require_input(fs::exists(directory / study_name) || !fs::exists(directory / run_record_name),
                "output.dir = ", directory.string(), " holds a run, not a study; allowed: another directory");
}

bool to_start(const PointRecord& record, bool retry) {
  return record.state == PointState::waiting || record.state == PointState::interrupted ||
         (retry && record.state == PointState::failed);
}

std::string line_of(const StudyResults& results, std::size_t point) {
  const PointRecord& record = results.record(point);
  return text(results.points()[point].name, ": ", name_of(record.state), record.job.empty() ? "" : ", job " + record.job,
              record.problem.empty() ? "" : ": " + record.problem);
}

void dry_run(const StudyResults& results, const StudyJobs& jobs, bool retry) {
  std::size_t starts = 0;
  for (std::size_t point = 0; point < results.points().size(); ++point) {
    const bool starts_now = to_start(results.record(point), retry);
    starts += starts_now ? 1 : 0;
    std::printf("%s\n", starts_now ? jobs.command_text(point).c_str() : text("# ", line_of(results, point)).c_str());
  }
  print_study(results);
  say(text(counted(results.points().size(), "point"), ", of which ", starts, " would be started; nothing was written"));
}

void run_here(StudyResults& results, StudyJobs& jobs, bool retry) {
  for (std::size_t point = 0; point < results.points().size(); ++point) {
    if (!to_start(results.record(point), retry)) continue;
    say(text("[", point + 1, "/", results.points().size(), "] ", results.points()[point].name, " ..."));
    jobs.prepare(point);
    jobs.run(point);
    say(line_of(results, point));
  }
}

/// Finds the jobs that an earlier study submitted without noting their ids ([Note: submitted once] in jobs.hpp).
void find_jobs(StudyResults& results, StudyJobs& jobs, bool retry, double poll_s) {
  constexpr int most_questions = 7;  // a minute with the default --poll: sbatch and qsub are given no more
  std::vector<std::size_t> sought;
  for (std::size_t point = 0; point < results.points().size(); ++point) {
    const PointRecord& record = results.record(point);
    if (to_start(record, retry) || record.state == PointState::submitting) sought.push_back(point);
  }
  for (int questions = 0; questions < most_questions && !sought.empty(); ++questions) {
    if (questions > 0) pause(poll_s);
    for (const std::size_t point : jobs.find(sought)) say("found again: " + line_of(results, point));
    std::erase_if(sought, [&](std::size_t point) { return results.record(point).state != PointState::submitting; });
    if (questions == 0 && !sought.empty()) {
      say(text("the submission of ", counted(sought.size(), "point"), " was interrupted: looking for its job, up to ",
               (most_questions - 1) * poll_s, " s"));
    }
  }
  for (const std::size_t point : sought) results.set_not_submitted(point);
}

void submit(StudyResults& results, StudyJobs& jobs, bool retry) {
  for (std::size_t point = 0; point < results.points().size(); ++point) {
    if (!to_start(results.record(point), retry)) continue;
    jobs.prepare(point);
    jobs.submit(point);
    say(line_of(results, point));
  }
}

void wait_for_jobs(StudyResults& results, StudyJobs& jobs, double poll_s) {
  std::string before;
  const auto waits = [&](std::size_t point) { return results.record(point).state == PointState::queued; };
  while (true) {
    bool any = false;
    for (std::size_t point = 0; point < results.points().size(); ++point) any = any || waits(point);
    if (const std::string progress = study_progress(results); progress != before) say(before = progress);
    if (!any) return;
    pause(poll_s);
    jobs.refresh();
  }
}

/// The end of the study: failed points, if there are any, and otherwise whether all are done.
Exit verdict(const StudyResults& results) {
  bool failed = false, left = false;
  for (std::size_t point = 0; point < results.points().size(); ++point) {
    const PointState state = results.record(point).state;
    failed = failed || state == PointState::failed;
    left = left || state == PointState::interrupted || state == PointState::waiting;
    if (state == PointState::failed) say(line_of(results, point) + " (--retry runs it again)");
  }
  say(text(study_progress(results), "; results: ", (results.directory() / study_name).string()));
  if (left) say("the same command goes on");
  return failed ? Exit::failed : left ? Exit::requeue : Exit::done;
}

Exit run_study(const config::Invocation& invocation) {
  const StudyRequest request = study_request(invocation);
  const std::optional<TimeModel> times = study_times(invocation, request);
  const std::vector<StudyPoint> points = study_points(invocation, request, times);
  const fs::path directory = invocation.options.output.dir;
  const bool retry = invocation.own<bool>("retry");
  require_directory(directory);
  if (simulates(invocation)) {
    simulate_study(invocation, points, times);
    return Exit::done;
  }
  if (invocation.own<bool>("dry-run")) {
    StudyResults results(directory, invocation, request, points);
    dry_run(results, StudyJobs(request, results), retry);
    return Exit::done;
  }
  io::make_writable("output.dir = " + directory.string(), directory);
  io::DirectoryLock lock(directory, "output.dir = " + directory.string(), invocation.options.comm.timeout, say);
  while (!lock.try_take()) pause(lock.poll_s());
  StudyResults results(directory, invocation, request, points);
  results.write();
  if (const std::size_t more = results.left_over().size(); more > 0) {
    say(text("not part of this study now, and left in the results file as found: ", counted(more, "point")));
  }
  StudyJobs jobs(request, results);
  if (request.launcher == Launcher::local) {
    run_here(results, jobs, retry);
  } else {
    const double poll_s = invocation.own<double>("poll");
    jobs.refresh();
    find_jobs(results, jobs, retry, poll_s);
    submit(results, jobs, retry);
    if (invocation.own<bool>("wait")) wait_for_jobs(results, jobs, poll_s);
  }
  print_study(results);
  return verdict(results);
}

Exit study(comm::World& world, config::Invocation& invocation) {
  Exit exit = Exit::done;
  on_rank_0(world.all(), [&] { exit = run_study(invocation); });
  return exit;
}

}  // namespace

Command study_command() {
  std::vector<config::CommandSpec::Own> own = study_options();
  own.push_back({"dry-run", false, "", config::any(), "list the points and what would be started; write nothing"});
  own.push_back({"retry", false, "", config::any(), "run failed points again"});
  own.push_back({"wait", true, "", config::any(),
                 "batch systems: stay until all jobs have ended; false: submit, collect what is there, and end"});
  own.push_back({"poll", 10.0, "s", config::at_least(0.1), "seconds between questions to the batch system"});
  const auto simulation = simulation_options();
  own.insert(own.end(), simulation.begin(), simulation.end());
  return {{.name = "study",
           .summary = "run a deck on several numbers of nodes, and collect the results",
           .arguments = {"DECK"},
           .checks = false,
           .own = own},
          study,
          true};
}

}  // namespace shoal::app
