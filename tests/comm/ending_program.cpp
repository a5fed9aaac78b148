// SPDX-License-Identifier: Apache-2.0
// A run that ends in the way that its argument names. ending_test.cpp checks its output and its exit code.
#include <mpi.h>
#include <sys/resource.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "shoal/base/error.hpp"
#include "shoal/base/heartbeat.hpp"
#include "shoal/base/mpi_free.hpp"
#include "shoal/base/pump.hpp"
#include "shoal/comm/launched.hpp"
#include "shoal/comm/watchdog.hpp"
#include "shoal/comm/world.hpp"

namespace {

std::atomic<bool> launcher_is_slow{false}, mpi_fails{false}, messages_are_late{false};

MPI_Comm counted = MPI_COMM_NULL;
std::atomic<int> sent_in_counted{0};

}  // namespace

extern "C" {

/// The launcher has not acted yet when the process ends.
int MPI_Abort(MPI_Comm communicator, int code) {
  if (launcher_is_slow) std::_Exit(code);
  return PMPI_Abort(communicator, code);
}

/// The watchdog asks for messages with it.
int MPI_Improbe(int source, int tag, MPI_Comm communicator, int* flag, MPI_Message* message, MPI_Status* status) {
  return mpi_fails ? MPI_ERR_OTHER : PMPI_Improbe(source, tag, communicator, flag, message, status);
}

int MPI_Isend(const void* data, int count, MPI_Datatype type, int to, int tag, MPI_Comm communicator, MPI_Request* request) {
  if (communicator == counted) ++sent_in_counted;
  if (communicator == counted && messages_are_late) {
    *request = MPI_REQUEST_NULL;
    return MPI_SUCCESS;
  }
  return PMPI_Isend(data, count, type, to, tag, communicator, request);
}

}  // extern "C"

namespace {

using shoal::Exit;
using shoal::comm::World;

void sum(World& world) {
  std::vector<double> one{1};
  world.all().all_reduce(shoal::Span<double>(one), shoal::comm::Reduce::sum).wait();
}

/// Kills the launcher's proxy, so that it cannot end its ranks.
void orphans(World& world) {
  dprintf(STDOUT_FILENO, "rank %d\n", getpid());
  sum(world);
  if (world.rank() == 0) {
    sleep(1);  // until the launcher has forwarded the output
    kill(getppid(), SIGKILL);
  }
  for (int i = 0; i < 1000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    shoal::heartbeat::beat();
  }
}

constexpr double timeout_s = 3, short_timeout_s = 1;

/// All ranks wait for the operating system; meanwhile a batch system suspends them for three times the timeout.
void suspended(World& world) {
  std::vector<pid_t> all(static_cast<std::size_t>(world.size()));
  const pid_t mine = getpid();
  world.all()
      .all_gather(shoal::comm::const_bytes_of(shoal::Span<const pid_t>(&mine, 1)),
                  shoal::comm::bytes_of(shoal::Span<pid_t>(all)))
      .wait();
  if (world.rank() == 0 && fork() == 0) {
    usleep(500'000);
    for (const pid_t process : all) kill(process, SIGSTOP);
    sleep(static_cast<unsigned>(3 * timeout_s));
    for (const pid_t process : all) kill(process, SIGCONT);
    _exit(0);
  }
  const shoal::MpiFree mpi_free;
  for (int i = 0; i < 2; ++i) std::this_thread::sleep_for(std::chrono::seconds(1));
}

/// Rank 2 is killed, then rank 1 fails, and rank 0 looks only when both are gone: it is stopped meanwhile.
void killed_and_fails(World& world) {
  sum(world);
  if (world.rank() == 0) {
    const pid_t process = getpid();
    if (fork() == 0) {
      sleep(2);
      kill(process, SIGCONT);
      _exit(0);
    }
    raise(SIGSTOP);
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(400 * (3 - world.rank())));
  if (world.rank() == 2) raise(SIGKILL);
  if (world.rank() == 1) {
    launcher_is_slow = true;
    shoal::fail("the disk is on fire");
  }
  sum(world);
}

void spin(double seconds) {
  const auto begin = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - begin < std::chrono::duration<double>(seconds)) {
  }
}

/// Computes for ten times the timeout: first in a single kernel, then in many.
void compute() {
  {
    const shoal::MpiFree mpi_free;
    spin(5 * short_timeout_s);
  }
  for (int i = 0; i < 100; ++i) {
    spin(0.05 * short_timeout_s);
    shoal::pump();
  }
}

/// The other ranks wait for rank 1, which calls `act` first.
template <typename Act>
void without_rank_1(World& world, const Act& act) {
  shoal::heartbeat::phase("step");
  sum(world);
  if (world.rank() == 1) act();
  sum(world);
}

/// Computes for four times the timeout, but uses little processor time.
void compute_gently() {
  for (int i = 0; i < 40; ++i) {
    const shoal::MpiFree mpi_free;
    std::this_thread::sleep_for(std::chrono::duration<double>(0.1 * timeout_s));
    shoal::heartbeat::beat();
  }
}

/// Rank 1 is late. Rank 0 prints how many messages each rank has sent to ask, or to answer, whether it is alive.
void ask_about_rank_1(World& world) {
  counted = *static_cast<const MPI_Comm*>(world.inquiry_communicator());
  without_rank_1(world, compute_gently);
  std::vector<int> all(static_cast<std::size_t>(world.size()));
  const int mine = sent_in_counted;
  world.all()
      .all_gather(shoal::comm::const_bytes_of(shoal::Span<const int>(&mine, 1)),
                  shoal::comm::bytes_of(shoal::Span<int>(all)))
      .wait();
  if (world.rank() != 0) return;
  for (const int sent : all) std::printf("%d ", sent);
}

/// Another process stops this one after a time, for a time.
void stop_after(double seconds, double for_seconds) {
  const pid_t process = getpid();
  if (fork() != 0) return;
  usleep(static_cast<useconds_t>(1e6 * seconds));
  kill(process, SIGSTOP);
  usleep(static_cast<useconds_t>(1e6 * for_seconds));
  kill(process, SIGCONT);
  _exit(0);
}

/// Rank 1 stalls. Rank 0, which asks the others, is stopped soon after it has begun to ask.
void stop_the_one_that_asks(World& world) {
  if (world.rank() == 0) stop_after(0.7 * timeout_s, 10 * timeout_s);
  without_rank_1(world, [] { std::this_thread::sleep_for(std::chrono::seconds(100)); });
}

/// Rank 1 is late, and while the others wait for it, half of them are stopped for less than the timeout, rank 0 as well.
void stop_some_for_a_while(World& world) {
  if (world.rank() % 3 == 0) stop_after(1.5 * timeout_s, 0.95 * timeout_s);
  without_rank_1(world, compute_gently);
}

/// Ranks that cannot look up each other's processes, as if each had a machine of its own: while the watchdogs are made, no
/// file of /proc can be opened.
std::unique_ptr<shoal::comm::Watchdog> watchdog_of_other_machines(World& world, double timeout) {
  // The sanitizer of virtual calls opens a pipe for a class that it has not seen yet: here, where it can.
  std::make_unique<shoal::comm::Watchdog>(world, timeout).reset();
  rlimit before{};
  getrlimit(RLIMIT_NOFILE, &before);
  const rlimit none{0, before.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  auto watchdog = std::make_unique<shoal::comm::Watchdog>(world, timeout);
  setrlimit(RLIMIT_NOFILE, &before);
  return watchdog;
}

Exit run(World& world, const std::string& how) {
  shoal::comm::check_launched(world.size(), shoal::comm::Expected::whole_job);
  shoal::comm::CommOptions options;
  options.timeout = how == "computes" ? short_timeout_s : timeout_s;
  world.make_groups(options);
  const bool unseen = how == "unseen" || how == "asker_stops" || how == "some_stop";
  const auto watchdog = unseen ? watchdog_of_other_machines(world, options.timeout)
                               : std::make_unique<shoal::comm::Watchdog>(world, options.timeout);
  if (how == "done") return Exit::done;
  if (how == "requeue") return Exit::requeue;
  if (how == "one_fails") return world.rank() == 1 ? Exit::failed : Exit::done;
  if (how == "bad_input") shoal::bad_input("x = 3: no such x\nx = 4: nor this");
  if (how == "differing") shoal::bad_input("x = ", world.rank() == 1 ? 4 : 3, ": no such x");
  if (how == "fails_here") without_rank_1(world, [] { shoal::fail("the disk is on fire"); });
  if (how == "seen_by_one") without_rank_1(world, [] { shoal::bad_input("only rank 1 thinks so"); });
  if (how == "fails_slowly") {
    without_rank_1(world, [] {
      launcher_is_slow = true;
      shoal::fail("the disk is on fire");
    });
  }
  if (how == "killed_and_fails") killed_and_fails(world);
  if (how == "mpi_fails") {
    without_rank_1(world, [] {
      const shoal::MpiFree mpi_free;  // so that the watchdog's thread calls MPI
      mpi_fails = true;
      std::this_thread::sleep_for(std::chrono::seconds(100));
    });
  }
  if (how == "killed") without_rank_1(world, [] { raise(SIGKILL); });
  if (how == "stopped") without_rank_1(world, [] { raise(SIGSTOP); });
  if (how == "late_messages") {
    counted = *static_cast<const MPI_Comm*>(world.inquiry_communicator());
    messages_are_late = true;
    without_rank_1(world, [] { raise(SIGSTOP); });
  }
  const auto stall = [] { std::this_thread::sleep_for(std::chrono::seconds(100)); };
  if (how == "stalled" || how == "unseen") without_rank_1(world, stall);
  if (how == "two_stalled") {
    shoal::heartbeat::phase("step");
    if (world.rank() % 2 == 1) stall();
    sum(world);
  }
  if (how == "different") {
    shoal::heartbeat::phase("step");
    sum(world);
    if (world.rank() != 1) world.node().barrier().wait();
    if (world.rank() == 1) sum(world);
  }
  if (how == "all_stalled") stall();
  if (how == "computes") without_rank_1(world, compute);
  if (how == "asker_stops") stop_the_one_that_asks(world);
  if (how == "some_stop") stop_some_for_a_while(world);
  if (how == "asks") ask_about_rank_1(world);
  if (how == "stuck_kernel") {
    without_rank_1(world, [&] {
      const shoal::MpiFree mpi_free;
      stall();
    });
  }
  if (how == "spins") without_rank_1(world, [] { spin(100); });
  if (how == "orphans") orphans(world);
  if (how == "suspended") suspended(world);
  if (how == "mixed_up") {
    without_rank_1(world, [&] {
      std::vector<std::byte> nothing(1);
      world.all().receive(nothing, 0, 7).wait();
    });
  }
  if (how == "slow")
    without_rank_1(world, [] {  // nearly the timeout
      for (int i = 0; i < 25; ++i) {
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
        shoal::heartbeat::beat();
      }
    });
  return Exit::done;
}

}  // namespace

int main(int argc, char** argv) {
  World world(argc, argv);
  try {
    return world.agree(static_cast<int>(run(world, argc > 1 ? argv[1] : "done")));
  } catch (const shoal::Error& error) {
    return world.end_with_error(error.code(), error.seen(), error.what());
  }
}
