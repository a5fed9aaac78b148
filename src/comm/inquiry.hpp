// SPDX-License-Identifier: Apache-2.0
// Ranks that wait for too long ask each other who waits as well. Who does not answer is computing, stuck or gone, and the
// others wait for it.
#pragma once

#include <mpi.h>

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

/// Every waiting rank calls waiting() now and then, and so answers questions. After `timeout` seconds of waiting it asks;
/// when the time for answers is over, the lowest rank that asked names those that said nothing and ends the run.
class Inquiry {
 public:
  /// communicator: used by nothing else, and outlives this. hosts: by its ranks. interval: seconds between calls of
  /// waiting().
  Inquiry(const MPI_Comm& communicator, std::vector<std::string> hosts, double timeout_s, double interval_s);
  /// This rank has waited for the operation for so long.
  void waiting(const Operation& operation, double seconds);

 private:
  enum class Kind : std::int32_t { question, answer };
  /// One message: plain data, the same on all ranks.
  struct Word {
    Kind kind = Kind::question;
    std::int32_t number = 0;            // of the question, by who asked it
    double seconds = 0;                 // that the sender has waited
    std::array<char, 112> operation{};  // that it waits for
  };
  struct Sent {
    Word word;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void listen(const Operation& operation, double seconds);
  void say(int to, Kind kind, std::int32_t number, const Operation& operation, double seconds);
  [[noreturn]] void report(const Operation& operation, double seconds) const;

  MPI_Comm communicator_ = MPI_COMM_NULL;
  std::vector<std::string> hosts_;
  double timeout_, answers_within_;
  int rank_ = 0;
  std::deque<Sent> sent_;
  bool asking_ = false;
  bool left_to_another_ = false;  // a lower rank asks
  std::int32_t number_ = 0;
  double asked_at_ = 0;  // seconds of this wait
  std::map<int, Word> answers_;
};

}  // namespace shoal::comm
