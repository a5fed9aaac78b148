// SPDX-License-Identifier: Apache-2.0
#include "inquiry.hpp"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "mpi_error.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

namespace {

constexpr std::size_t most_named = 8;  // a report names at most this many ranks

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

}  // namespace

/// grace_: time for an answer to arrive, and for a rank that hangs to report itself (comm/watchdog.cpp) before others do.
Inquiry::Inquiry(const MPI_Comm& communicator, std::vector<std::string> hosts, double timeout_s, double interval_s)
    : communicator_(communicator),
      hosts_(std::move(hosts)),
      timeout_(timeout_s),
      period_(std::max(interval_s, timeout_s / 8)),
      grace_(3 * interval_s + std::min(1.0, timeout_s / 10)) {
  check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
}

void Inquiry::waiting(const Operation& operation, double seconds) {
  Status mine;
  mine.waited = seconds;
  operation.describe().copy(mine.what.data(), mine.what.size() - 1);
  receive_and_answer(mine);
  if (seconds < timeout_ / 2) {  // a new wait: forget the answers of the last one
    asking_ = false;
    latest_.clear();
    return;
  }
  const Clock::time_point now = Clock::now();
  if (!asking_ || seconds_between(asked_at_, now) >= period_) {
    asking_ = true;
    asked_at_ = now;
    for (int r = 0; r < static_cast<int>(hosts_.size()); ++r) {
      if (r != rank_) send(r, mine, Kind::question);
    }
  }
  report_silent_ranks(operation, seconds, now);
}

void Inquiry::at_work(const char* phase) {
  Status mine;
  std::string_view(phase).copy(mine.what.data(), mine.what.size() - 1);
  receive_and_answer(mine);
}

/// Receives all messages that have arrived, and answers questions.
void Inquiry::receive_and_answer(const Status& answer) {
  while (!outgoing_.empty()) {
    int complete = 0;
    check(MPI_Test(&outgoing_.front().request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (complete == 0) break;
    outgoing_.pop_front();
  }
  while (true) {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status source;
    check(MPI_Improbe(MPI_ANY_SOURCE, 0, communicator_, &there, &message, &source), "MPI_Improbe");
    if (there == 0) return;
    ReceivedMessage received;
    check(MPI_Mrecv(&received.status, sizeof received.status, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    received.at = Clock::now();
    const int from = source.MPI_SOURCE;
    latest_[from] = received;
    if (received.status.kind == Kind::answer) continue;
    send(from, answer, Kind::answer);
    if (from < rank_) lower_asked_at_ = received.at;
  }
}

void Inquiry::send(int to, Status status, Kind kind) {
  status.kind = kind;
  OutgoingMessage& outgoing = outgoing_.emplace_back();  // a deque does not move its elements, so the buffer stays in place
  outgoing.status = status;
  check(MPI_Isend(&outgoing.status, sizeof outgoing.status, MPI_BYTE, to, 0, communicator_, &outgoing.request), "MPI_Isend");
}

/// A rank's silence begins with its latest message, or with this wait. If a lower rank also asks, this one waits longer, so
/// that the lower rank reports first. All ranks are reported as waiting only if each of them has waited for the timeout,
/// according to its latest message.
void Inquiry::report_silent_ranks(const Operation& operation, double seconds, Clock::time_point now) const {
  const bool lower_asks =
      lower_asked_at_ != Clock::time_point{} && seconds_between(lower_asked_at_, now) < 2 * period_ + grace_;
  const double allowed = timeout_ + grace_ + (lower_asks ? grace_ : 0);
  if (seconds <= allowed) return;
  std::vector<int> silent;
  bool all_wait = true;
  for (int r = 0; r < static_cast<int>(hosts_.size()); ++r) {
    if (r == rank_) continue;
    const auto latest = latest_.find(r);
    if (latest == latest_.end() || seconds_between(latest->second.at, now) > allowed) {
      silent.push_back(r);
    } else if (latest->second.status.waited < timeout_) {
      all_wait = false;
    }
  }
  if (all_wait || !silent.empty()) report(operation, seconds, silent);
}

void Inquiry::report(const Operation& operation, double seconds, const std::vector<int>& silent) const {
  std::string fault = silent.empty() ? "all ranks are waiting (a deadlock, or collectives called in different orders)"
                                     : "no sign of life from ";
  for (std::size_t i = 0; i < std::min(silent.size(), most_named); ++i) {
    fault += text(i > 0 ? ", rank " : "rank ", silent[i], " (", hosts_[static_cast<std::size_t>(silent[i])], ")");
  }
  if (silent.size() > most_named) fault += text(" and ", silent.size() - most_named, " more");
  std::string others;
  std::size_t named = 0;
  for (const auto& [r, latest] : latest_) {
    if (std::find(silent.begin(), silent.end(), r) != silent.end() || ++named > most_named) continue;
    others +=
        text("; rank ", r, latest.status.waited > 0 ? " waits for " : " is at work, in phase ", latest.status.what.data());
  }
  std::fputs(text("shoal: rank ", rank_, " has waited ", static_cast<std::int64_t>(seconds), " s for ", operation.describe(),
                  ": ", fault, others, "\n")
                 .c_str(),
             stderr);
  abort_all(static_cast<int>(Exit::failed));
}

}  // namespace shoal::comm
