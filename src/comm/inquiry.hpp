// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for a long time ask all others whether they are alive. Ranks that wait or compute answer. A rank that does
// not answer for comm.timeout seconds hangs or has died.
//
//   rank 0   waits ...... asks   asks   asks ...       (from half the timeout on, several times per timeout)
//   rank 1   computes ....... "at work"   "at work"    may continue, however long it computes
//   rank 2   stopped                                   named by rank 0 when it has not answered for the timeout
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

/// Called by one thread at a time: the main thread, or, while it is absent from MPI, the watchdog's (base/absence.hpp).
class Inquiry {
 public:
  /// communicator: used for nothing else; must outlive this object. hosts: by rank. interval_s: seconds between calls of
  /// waiting() and of at_work().
  Inquiry(const MPI_Comm& communicator, std::vector<std::string> hosts, double timeout_s, double interval_s);
  /// To be called while this rank waits; seconds: how long it has waited for the operation. Answers questions and, from half
  /// the timeout on, asks all other ranks. If ranks have been silent for the timeout, or if all ranks have waited that long,
  /// prints this and ends the run; the lowest rank that detects it does so.
  void waiting(const Operation& operation, double seconds);
  /// To be called while this rank does not wait. Answers questions.
  void at_work(const char* phase);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::int32_t { question, answer };
  /// A message: the state of its sender. Questions have it, too.
  struct Status {
    Kind kind = Kind::question;
    double waited = 0;             // seconds that the sender has waited; 0 if it does not wait
    std::array<char, 112> what{};  // the operation that it waits for, or its phase
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
  bool asking_ = false;  // true if this rank has asked in the present wait
  Clock::time_point asked_at_, lower_asked_at_;
  std::map<int, ReceivedMessage> latest_;  // the latest message of each rank during the present wait
};

}  // namespace shoal::comm
