// SPDX-License-Identifier: Apache-2.0
#include "shoal/comm/world.hpp"

#include <mpi.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "comm/nccl/nccl.hpp"
#include "comm/operations/duplicate.hpp"
#include "comm/operations/mpi_error.hpp"
#include "comm/operations/print_error.hpp"
#include "comm/world/groups.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/hash.hpp"
#include "shoal/comm/abort.hpp"

namespace shoal::comm {

namespace {

constexpr double error_bound_s = 5;    // a rank that ends with an error code waits this long for the others
constexpr double message_bound_s = 3;  // a rank that ends with an error message waits this long for the others
constexpr double exit_bound_s = 30;    // between the last agreement and MPI_Finalize

/// Orders exit codes by severity.
int severity(int code) {
  if (code == static_cast<int>(Exit::done)) return 0;
  if (code == static_cast<int>(Exit::requeue)) return 1;
  return 1 + code;
}

/// `mpiexec -disable-auto-cleanup` sends SIGUSR1 to the ranks if one of them has died. MPICH (observed with 4.0.2) then asks
/// the launcher which rank it was, on which both crash without a message. The watchdog detects dead ranks by itself, so the
/// signal is ignored, unless the program installs a handler of its own for other uses of it. It blocks the signal meanwhile;
/// to ignore it would drop one that has come.
void ignore_news_of_dead_ranks(const struct sigaction& before) {
  sigset_t blocked;
  sigemptyset(&blocked);
  if (pthread_sigmask(SIG_BLOCK, nullptr, &blocked) == 0 && sigismember(&blocked, SIGUSR1) == 1) return;
  struct sigaction now {};
  if (sigaction(SIGUSR1, nullptr, &now) == 0 && now.sa_handler != before.sa_handler) std::signal(SIGUSR1, SIG_IGN);
}

/// The data that ranks exchange at the end of a run.
struct Ending {
  std::int64_t code = 0;
  std::uint64_t message = 0;  // hash of the error message; 0: none
};

}  // namespace

struct World::State {
  int launcher_rank = 0, size = 1;
  MPI_Comm endings = MPI_COMM_NULL;  // for the end of the run only, so that no other message can match
  std::unique_ptr<Groups> groups;

  /// Collective. Returns all ranks' endings, by the launcher's rank; empty if a rank does not call it within bound_s seconds
  /// (0: no limit).
  std::vector<Ending> exchange_endings(const Ending& mine, double bound_s) const {
    std::vector<Ending> all(static_cast<std::size_t>(size));
    MPI_Request request = MPI_REQUEST_NULL;
    check(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, endings, &request),
          "MPI_Iallgather");
    if (!finish(request, bound_s)) all.clear();
    return all;
  }
};

World::World(int& argc, char**& argv) : state_(std::make_unique<State>()) {
  struct sigaction usr1 {};
  require(sigaction(SIGUSR1, nullptr, &usr1) == 0, "sigaction: ", std::strerror(errno));
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &provided), "MPI_Init_thread");
  ignore_news_of_dead_ranks(usr1);
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  require(provided >= MPI_THREAD_SERIALIZED, "this MPI library cannot be used by several threads in turn");
  check(MPI_Comm_rank(MPI_COMM_WORLD, &state_->launcher_rank), "MPI_Comm_rank");
  check(MPI_Comm_size(MPI_COMM_WORLD, &state_->size), "MPI_Comm_size");
  state_->endings = duplicate(MPI_COMM_WORLD);
}

World::~World() {
  try {
    MPI_Request barrier = MPI_REQUEST_NULL;
    check(MPI_Ibarrier(state_->endings, &barrier), "MPI_Ibarrier");
    if (!finish(barrier, exit_bound_s)) {
      print_error(text("shoal: rank ", rank(), ": "),
                  text("the other ranks did not reach the end of the run within ", exit_bound_s, " s"));
      abort_all(static_cast<int>(Exit::failed));
    }
    state_->groups.reset();
    check(MPI_Comm_free(&state_->endings), "MPI_Comm_free");
    check(MPI_Finalize(), "MPI_Finalize");
  } catch (const Error& error) {
    print_error(text("shoal: rank ", rank(), ": "), error.what());
    abort_all(static_cast<int>(Exit::failed));
  }
}

int World::rank() const { return state_->groups != nullptr ? state_->groups->all->rank() : state_->launcher_rank; }
int World::size() const { return state_->size; }

void World::make_groups(const CommOptions& options, const Axes& axes) {
  state_->groups = std::make_unique<Groups>(options, axes);
}

Communicator& World::all() { return *state_->groups->all; }
Communicator& World::node() { return *state_->groups->node; }
Communicator& World::across() { return *state_->groups->across; }
Communicator& World::consecutive(int count) { return state_->groups->consecutive(count); }
Communicator& World::same_position(int count) { return state_->groups->same_position(count); }
Communicator& World::data() { return state_->groups->along(Along::data); }
Communicator& World::tensor() { return state_->groups->along(Along::tensor); }
Communicator& World::pipeline() { return state_->groups->along(Along::pipeline); }
Communicator& World::model() { return state_->groups->along(Along::model); }
Communicator& World::data_node() { return state_->groups->along(Along::data_node); }
Communicator& World::data_across() { return state_->groups->along(Along::data_across); }
const Axes& World::axes() const { return state_->groups->axes; }
Axes::Position World::position() const { return axes().position(rank(), size()); }
Topology World::data_topology() const {
  std::vector<int> members;
  const Axes::Position own = position();
  for (int other = 0; other < size(); ++other) {
    const Axes::Position at = axes().position(other, size());
    if (at.tensor == own.tensor && at.pipeline == own.pipeline) members.push_back(other);
  }
  return topology_of(topology(), members);
}
const std::vector<GroupKind>& World::group_kinds() const { return state_->groups->kinds; }
const Topology& World::topology() const { return state_->groups->topology; }
int World::nodes() const { return topology().nodes(); }
const void* World::mpi_communicator() const { return &state_->groups->ordered; }
const void* World::inquiry_communicator() const { return &state_->groups->inquiry; }

int World::agree(int exit_code) {
  const double bound_s = severity(exit_code) > 1 ? error_bound_s : 0;
  const std::vector<Ending> all = state_->exchange_endings({exit_code, 0}, bound_s);
  if (all.empty()) {
    print_error(text("shoal: rank ", rank(), ": "),
                text("failed (exit code ", exit_code, "), and the other ranks did not end within ", error_bound_s,
                     " s; this ends all ranks"));
    abort_all(exit_code);
  }
  for (const Ending& other : all) {
    if (severity(static_cast<int>(other.code)) > severity(exit_code)) exit_code = static_cast<int>(other.code);
  }
  return exit_code;
}

int World::end_with_error(Exit code, Seen seen, const std::string& message) {
  const std::string head = text("shoal: rank ", rank(), ": ");
  const Ending mine{static_cast<std::int64_t>(code), hash_of(message)};
  const std::vector<Ending> all =
      seen == Seen::everywhere ? state_->exchange_endings(mine, message_bound_s) : std::vector<Ending>();
  if (all.empty()) {
    print_error(head, message);
    abort_all(static_cast<int>(code));
  }
  if (state_->launcher_rank == 0) {
    print_error("shoal: ", message);
  } else if (mine.message != all.front().message) {
    print_error(head, message);
  }
  int worst = static_cast<int>(code);
  for (const Ending& other : all) {
    if (severity(static_cast<int>(other.code)) > severity(worst)) worst = static_cast<int>(other.code);
  }
  return worst;
}

std::pair<std::string, std::string> library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> words{};
  int length = 0;
  check(MPI_Get_library_version(words.data(), &length), "MPI_Get_library_version");
  // The first line; MPICH's is "MPICH Version:\t4.0.2".
  const std::string_view all(words.data(), static_cast<std::size_t>(length));
  std::string first(all.substr(0, all.find('\n')));
  std::replace(first.begin(), first.end(), '\t', ' ');
  if (const std::size_t at = first.find(" Version:"); at != std::string::npos) first.erase(at, std::strlen(" Version:"));
  return {"MPI", first};
}

std::pair<std::string, std::string> device_library_version() { return {"NCCL", nccl_version()}; }

}  // namespace shoal::comm
