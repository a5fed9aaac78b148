// SPDX-License-Identifier: Apache-2.0
#include "nccl_handles.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>

#include "device_operations.hpp"
#include "duplicate.hpp"
#include "mpi_error.hpp"
#include "nccl.hpp"
#include "open_operations.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/wait.hpp"
#include "shoal/device/taken.hpp"

namespace shoal::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// All communicators that are neither ended nor aborted. The watchdog's thread may abort them.
class Living {
 public:
  void add(ncclComm_t communicator) {
    const std::lock_guard lock(mutex_);
    all_.push_back(communicator);
  }
  void abort() noexcept {
    const std::lock_guard lock(mutex_);
    for (ncclComm_t const communicator : all_) ncclCommAbort(communicator);  // an error would be one of many
    all_.clear();
  }
  /// An error here would have no effect.
  void end(ncclComm_t communicator, bool at_once) {
    const std::lock_guard lock(mutex_);
    if (std::erase(all_, communicator) > 0) at_once ? ncclCommAbort(communicator) : ncclCommDestroy(communicator);
  }

 private:
  std::mutex mutex_;
  std::vector<ncclComm_t> all_;
};

Living& living() {
  static Living all;
  return all;
}

std::string version_text(int code) { return text(code / 10000, '.', code / 100 % 100, '.', code % 100); }

int loaded_version() {
  int version = 0;
  const ncclResult_t asked = ncclGetVersion(&version);
  require(asked == ncclSuccess, "ncclGetVersion: ", ncclGetErrorString(asked));
  return version;
}

/// NCCL's words for an error, and what it says about the last one.
std::string words_of(ncclResult_t result, ncclComm_t communicator) {
  const char* const detail = ncclGetLastError(communicator);
  const std::string more = detail == nullptr || *detail == '\0' ? "" : text(" (", detail, ")");
  return ncclGetErrorString(result) + more;
}

}  // namespace

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1), "ncclCommSplit() needs NCCL 2.18.1 or newer");

std::string nccl_version() { return version_text(loaded_version()); }

/// [Note: one order of calls]. setenv() is safe here: groups are made before this program starts a thread of its own, and
/// before CUDA does.
NcclHandles::NcclHandles(const MPI_Comm& ranks, double timeout_s) : timeout_(timeout_s) {
  require(setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0) == 0, "setenv: ", std::strerror(errno));
  const int version = loaded_version();
  require(version >= NCCL_VERSION_CODE, "the NCCL that was loaded is ", version_text(version),
          ", but this program was compiled for ", version_text(NCCL_VERSION_CODE), "; load that one or a newer one");
  ranks_ = duplicate(ranks);
  check(MPI_Comm_rank(ranks_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(ranks_, &size_), "MPI_Comm_size");
  set_release_device([]() noexcept { living().abort(); });
}

NcclHandles::~NcclHandles() {
  for (const NcclGroup& group : groups_) living().end(group.communicator, abort_at_end_);
  MPI_Comm_free(&ranks_);  // an error here would have no effect
}

NcclGroup& NcclHandles::add(std::string name, const std::vector<int>& part_of) {
  const auto ranks_in = [&](int part) { return std::count(part_of.begin(), part_of.end(), part); };
  NcclGroup& group = groups_.emplace_back();
  group.name = std::move(name);
  group.part = part_of[static_cast<std::size_t>(rank_)];
  group.alone = ranks_in(group.part) == 1;
  group.all_alone = std::all_of(part_of.begin(), part_of.end(), [&](int part) { return ranks_in(part) == 1; });
  group.made = group.all_alone;
  require(groups_.size() > 1 || ranks_in(group.part) == size_, "the first group of NCCL, ", group.name, ", lacks ranks");
  return group;
}

ncclComm_t NcclHandles::of(const NcclGroup& group) {
  for (NcclGroup& other : groups_) {
    if (!other.made) device::measure_taken("NCCL", [&] { make(other); });
  }
  return group.communicator;
}

/// The first group is made from an id, and the others are parts of it.
void NcclHandles::make(NcclGroup& group) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  if (&group == &groups_.front()) {
    const std::string what = text("ncclCommInitRankConfig of ", group.name);
    const ncclUniqueId id = shared_id();
    const ncclResult_t result = ncclCommInitRankConfig(&group.communicator, size_, id, rank_, &config);
    if (group.communicator != nullptr) living().add(group.communicator);
    settle(result, group.communicator, what);
  } else {
    const std::string what = text("ncclCommSplit of ", group.name);
    ncclComm_t const all = groups_.front().communicator;
    const ncclResult_t result =
        ncclCommSplit(all, group.alone ? NCCL_SPLIT_NOCOLOR : group.part, rank_, &group.communicator, &config);
    // ncclCommSplit() may succeed while the old communicator is still busy; the new one is there when it no longer is.
    settle(result == ncclSuccess ? ncclInProgress : result, all, what);
    if (group.communicator != nullptr) {
      living().add(group.communicator);
      settle(ncclInProgress, group.communicator, what);
    }
  }
  group.made = true;
}

ncclUniqueId NcclHandles::shared_id() {
  ncclUniqueId id{};
  if (rank_ == 0) settle(ncclGetUniqueId(&id), nullptr, "ncclGetUniqueId");
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Ibcast(&id, sizeof id, MPI_BYTE, 0, ranks_, &request), "MPI_Ibcast");
  if (!finish(request, timeout_)) give_up(text("rank 0 sent no id of NCCL within ", timeout_, " s (comm.timeout)"));
  return id;
}

void NcclHandles::settle(ncclResult_t result, ncclComm_t communicator, const std::string& what) {
  if (result == ncclSuccess) return;
  if (result != ncclInProgress) give_up(text(what, ": ", words_of(result, communicator)));
  const Clock::time_point begin = Clock::now();
  for (Backoff backoff; !settled(communicator, what); backoff.pause()) {
    listen_if_called();
    if (Clock::now() - begin > std::chrono::duration<double>(timeout_)) {
      give_up(text(what, " did not end within ", timeout_, " s (comm.timeout)"));
    }
  }
}

bool NcclHandles::settled(ncclComm_t communicator, const std::string& what) {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = ncclCommGetAsyncError(communicator, &state);
  if (asked != ncclSuccess) give_up(text(what, ": ncclCommGetAsyncError: ", words_of(asked, communicator)));
  if (state != ncclSuccess && state != ncclInProgress) give_up(text(what, ": ", words_of(state, communicator)));
  return state == ncclSuccess;
}

void NcclHandles::check_errors(const std::function<std::string()>& unfinished) {
  for (const NcclGroup& group : groups_) {
    if (group.communicator == nullptr) continue;
    ncclResult_t state = ncclSuccess;
    const ncclResult_t asked = ncclCommGetAsyncError(group.communicator, &state);
    if (asked != ncclSuccess) state = asked;
    if (state == ncclSuccess || state == ncclInProgress) continue;
    const std::string first = unfinished();
    give_up(text("NCCL failed in group ", group.name, ": ", words_of(state, group.communicator),
                 first.empty() ? "" : "; first unfinished operation: ", first));
  }
}

/// Memory that the device still uses is freed when the exception unwinds the stack, so nothing may be left on the device.
void NcclHandles::give_up(const std::string& message) {
  living().abort();
  for (NcclGroup& group : groups_) group.communicator = nullptr;
  fail(message);
}

}  // namespace shoal::comm
