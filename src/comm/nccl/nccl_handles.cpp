// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/nccl_handles.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "comm/nccl/nccl.hpp"
#include "comm/nccl/nccl_living.hpp"
#include "comm/operations/device_operations.hpp"
#include "comm/operations/duplicate.hpp"
#include "comm/operations/mpi_error.hpp"
#include "comm/operations/open_operations.hpp"
#include "comm/operations/print_error.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/wait.hpp"
#include "shoal/device/taken.hpp"

namespace shoal::comm {

namespace {

using Clock = std::chrono::steady_clock;

/// Numbers the parts in the order of their first ranks.
std::vector<int> by_first_rank(const std::vector<int>& part_of) {
  std::map<int, int> number_of;
  std::vector<int> numbers;
  for (const int part : part_of)
    numbers.push_back(number_of.try_emplace(part, static_cast<int>(number_of.size())).first->second);
  return numbers;
}

/// NCCL's words for an error, and what it says about the last one.
std::string words_of(ncclResult_t result, ncclComm_t communicator) {
  const char* const detail = ncclGetLastError(communicator);
  const std::string more = detail == nullptr || *detail == '\0' ? "" : text(" (", detail, ")");
  return ncclGetErrorString(result) + more;
}

}  // namespace

static_assert(NCCL_VERSION_CODE >= NCCL_VERSION(2, 18, 1), "ncclCommSplit() needs NCCL 2.18.1 or newer");

std::string nccl_version() { return nccl_version_text(loaded_nccl()); }

/// [Note: one order of calls]. setenv() is safe here: groups are made before this program starts a thread of its own, and
/// before CUDA does.
NcclHandles::NcclHandles(const MPI_Comm& ranks, double timeout_s, std::function<std::vector<const NcclGroup*>()> unfinished)
    : timeout_(timeout_s), unfinished_(std::move(unfinished)) {
  require(setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0) == 0, "setenv: ", std::strerror(errno));
  const int version = loaded_nccl();
  require(version >= NCCL_VERSION_CODE, "the NCCL that was loaded is ", nccl_version_text(version),
          ", but this program was compiled for ", nccl_version_text(NCCL_VERSION_CODE), "; load that one or a newer one");
  ranks_ = duplicate(ranks);
  check(MPI_Comm_rank(ranks_, &rank_), "MPI_Comm_rank");
  check(MPI_Comm_size(ranks_, &size_), "MPI_Comm_size");
  set_release_device([]() noexcept { living().abort(); });
}

NcclHandles::~NcclHandles() {
  if (abort_at_end_) living().abort();
  for (const NcclGroup& group : groups_) living().end(group.communicator);
  for (ncclComm_t const origin : origins_) living().end(origin);
  MPI_Comm_free(&ranks_);  // an error here would have no effect
}

NcclGroup& NcclHandles::add(Origin origin, std::string name, const std::vector<int>& part_of) {
  const std::vector<int> parts = by_first_rank(part_of);
  const auto same = std::find_if(groups_.begin(), groups_.end(),
                                 [&](const NcclGroup& other) { return other.origin == origin && other.parts == parts; });
  if (same != groups_.end()) return *same;
  const auto ranks_in = [&](int part) { return std::count(parts.begin(), parts.end(), part); };
  NcclGroup& group = groups_.emplace_back();
  group.origin = origin;
  group.name = std::move(name);
  if (origin == Origin::gathers) group.name += " (gathers)";
  group.parts = parts;
  group.part = parts[static_cast<std::size_t>(rank_)];
  group.alone = ranks_in(group.part) == 1;
  group.all_alone = std::all_of(parts.begin(), parts.end(), [&](int part) { return ranks_in(part) == 1; });
  group.made = group.all_alone;
  return group;
}

void NcclHandles::prepare(NcclGroup& group) {
  if (group.made) return;
  device::measure_taken("NCCL", [&] { make(group); });
}

ncclComm_t NcclHandles::of(const NcclGroup& group) {
  if (!group.made) {
    for (NcclGroup& other : groups_) prepare(other);
  }
  return group.communicator;
}

/// [Note: blocking communicators] A communicator is made without blocking, so that this rank finds that another one is
/// missing within the limit of time. But each call of a communicator that does not block starts a thread, and the host waits
/// until that has enqueued the call. So one communicator of all ranks, the origin, does not block and has no messages, and
/// the groups' are parts of it, which block: their calls return when they are enqueued. A call that never returns is found
/// by the watchdog.
ncclConfig_t NcclHandles::configuration(bool blocking) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = blocking ? 1 : 0;
  config.splitShare = 1;  // two ranks that are neighbours in several groups have one set of buffers
  return config;
}

ncclComm_t NcclHandles::made_origin(Origin which) {
  ncclComm_t& origin = origins_[static_cast<std::size_t>(which)];
  if (origin != nullptr) return origin;
  ncclConfig_t config = configuration(false);
  const std::string what = "ncclCommInitRankConfig of all ranks";
  const ncclUniqueId id = shared_id();
  const ncclResult_t result = ncclCommInitRankConfig(&origin, size_, id, rank_, &config);
  if (origin != nullptr) living().add(origin);
  settle(result, origin, what);
  return origin;
}

void NcclHandles::make(NcclGroup& group) {
  ncclComm_t const origin = made_origin(group.origin);
  ncclConfig_t config = configuration(true);
  const std::string what = text("ncclCommSplit of ", group.name);
  const ncclResult_t result =
      ncclCommSplit(origin, group.alone ? NCCL_SPLIT_NOCOLOR : group.part, rank_, &group.communicator, &config);
  // ncclCommSplit() may succeed while the old communicator is still busy; the new one is there when it no longer is.
  settle(result == ncclSuccess ? ncclInProgress : result, origin, what);
  if (group.communicator != nullptr) {
    living().add(group.communicator);
    settle(ncclInProgress, group.communicator, what);
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
/// The message comes first, since to abort communicators may take for ever.
void NcclHandles::give_up(const std::string& message) {
  print_error(text("shoal: rank ", rank_, ": "), message);
  std::vector<ncclComm_t> first;
  for (const NcclGroup* const group : unfinished_()) first.push_back(group->communicator);
  living().abort(first);
  for (NcclGroup& group : groups_) group.communicator = nullptr;
  origins_ = {};
  fail(message);
}

}  // namespace shoal::comm
