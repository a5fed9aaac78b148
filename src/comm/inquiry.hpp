// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for long ask all others whether they are alive. Whoever waits, or computes, answers; who says nothing for
// comm.timeout seconds is stuck or gone.
//
//   rank 0   waits ...... asks   asks   asks ...       (from half the timeout on, some times per timeout)
//   rank 1   computes ....... "at work"   "at work"    goes on, however long it computes
//   rank 2   stopped                                   named by rank 0 when it has been silent for the timeout
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// One of this rank's threads at a time calls it: the main thread, or the watchdog's in its place (base/absence.hpp).
class Inquiry {
 public:
  /// communicator: used by nothing else, and outlives this. hosts: by its ranks. interval: seconds between calls of
  /// waiting() and of at_work().
  Inquiry(const MPI_Comm& communicator, std::vector<std::string> hosts, double timeout_s, double interval_s);
  /// This rank has waited for the operation for so long. Answers questions, and asks. Names the ranks that have been silent
  /// for the timeout, or says that all ranks have waited that long, and ends the run: the lowest rank that finds it does.
  void waiting(const Operation& operation, double seconds);
  /// This rank does not wait: answers questions.
  void at_work(const char* phase);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::int32_t { question, answer };
  /// One message: plain data, the same on all ranks. A question says how its sender is, too.
  struct Status {
    Kind kind = Kind::question;
    double waited = 0;             // seconds that the sender has waited; 0: it is at work
    std::array<char, 112> what{};  // that it waits for, or its phase
  };
  struct OutgoingMessage {
    Status status;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct ReceivedMessage {
    Status status;
    Clock::time_point at;
  };

  void receive_and_answer(const Status& answer);
  void send(int to, Status status, Kind kind);
  void report_silent_ranks(const Operation& operation, double seconds, Clock::time_point now) const;
  [[noreturn]] void report(const Operation& operation, double seconds, const std::vector<int>& silent) const;

  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::vector<std::string> hosts_;
  double timeout_, period_, grace_;
  int rank_ = 0;
  std::deque<OutgoingMessage> outgoing_;
  bool asking_ = false;  // in this wait
  Clock::time_point asked_at_, lower_asked_at_;
  std::map<int, ReceivedMessage> latest_;  // the last status of each rank, in this wait
};

}  // namespace shoal::comm
