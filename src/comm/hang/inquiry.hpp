// SPDX-License-Identifier: Apache-2.0
// Finds ranks that hang, with the help of the other ranks, and prints one report about all of them.
//
// A rank that waits for a long time asks all others whether they are alive. Ranks that wait or compute answer. A rank that
// does not answer for comm.timeout seconds hangs or has died. A rank on the same machine is found sooner: its heartbeat can
// be read (rank_processes.hpp).
//
//   rank 0   waits ...... asks   asks   asks ...       (from half the timeout on, several times per timeout)
//   rank 1   computes ....... "at work"   "at work"    may continue, however long it computes
//   rank 2   stopped                                   named by rank 0 when it has not answered for the timeout
//   rank 3   waits ...... is asked                     leaves it to rank 0
//
// [Note: messages, not files] Reports in output.dir would need no thread that calls MPI. But a file system that does not
// answer is a frequent cause of a hang: a rank that touches it hangs as well, and cannot report anything. Messages also
// reach ranks that share no disk, and commands without output.dir have a watchdog, too.
//
// [Note: one rank asks for all] If a rank of thousands is late, all others wait for it. If each of them asked all others,
// every rank would need a connection to every other. So a rank leaves asking to a lower one that has waited about as long
// and has asked it lately. If that one's wait ends, or it hangs, its questions cease, and another one asks: the lowest ones
// begin first, so that few have begun when the others hear it. A question says what its sender knows of the others, so that
// a rank that takes over does not call those mute that it has not heard itself. A report may then come half a timeout later.
//
// [Note: one report] Whoever finds a hang announces it to all ranks before it reports, and collects their answers, which
// say what each of them is doing. A rank that hears the announcement of a lower one leaves the report to it. So the report
// is printed once, by the lowest rank that finds the hang, and it is complete. A rank that reports notes so in its page,
// where ranks of its machine see it even if messages are late.
//
//   rank 0   finds it, announces ........... reports, and ends the run
//   rank 1   finds it, announces, hears 0's: waits
//   rank 3   answers for itself, and for rank 2 of its machine, whose page it reads
#pragma once

#include <mpi.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "comm/hang/hang_report.hpp"
#include "comm/hang/rank_processes.hpp"
#include "shoal/base/activity.hpp"
#include "shoal/comm/communicator.hpp"

namespace shoal::comm {

class World;

/// Called by one thread at a time: the main thread, or, while it is absent from MPI, the watchdog's (base/mpi_free.hpp).
class Inquiry {
 public:
  /// world, peers: must outlive this object. interval_s: seconds between calls of waiting() and of at_work().
  Inquiry(World& world, const RankProcesses& peers, double timeout_s, double interval_s);
  /// To be called while this rank waits; seconds: how long it has waited for the operation. Answers questions and, from half
  /// the timeout on, asks all other ranks, unless a lower one does. If ranks have been silent for the timeout, or if all
  /// ranks have waited that long, reports it and ends the run, unless another rank does so.
  void waiting(const Operation& operation, double seconds);
  /// To be called while this rank does not wait. Answers questions, and reports ranks of this machine that are silent.
  void at_work();

  /// To be called when this process runs again after it was suspended, perhaps with all others: none of them is mute before
  /// it has had the timeout to answer. May be called from any thread.
  void continued() { continued_at_ = Clock::now(); }

  /// Seconds from the moment when a rank counts as silent until the others have reported it, unless the rank that asks has
  /// changed meanwhile. May be called from any thread, as the next two.
  double longest_s() const { return period_ + 2 * answers_within_ + 3 * interval_; }
  /// The report of a rank that hangs about itself, with what it can read of others.
  std::string report_of_own_hang(double silence_s) const;

 private:
  using Clock = std::chrono::steady_clock;
  enum class Kind : std::int64_t { question, answer, announcement };
  struct Message {
    Kind kind = Kind::question;
    activity::Picture picture;  ///< of its sender; of an answer also of a silent rank of the sender's machine
    double quiet_s = 0;         ///< of a question: its sender has heard from every rank within this time
  };
  struct OutgoingMessage {
    Message message;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  struct Heard {
    activity::Picture picture;
    Clock::time_point at;
  };
  /// What is wrong; nothing if all members are empty.
  struct Fault {
    std::vector<int> silent;  ///< their heartbeats are old
    std::vector<int> mute;    ///< they do not answer
    bool all_wait = false;
    bool found() const { return all_wait || !silent.empty() || !mute.empty(); }
  };
  /// The wait of this rank; none if it is at work.
  struct OwnWait {
    const Operation* operation = nullptr;
    double seconds = 0;
  };

  void ask(double seconds, const activity::Picture& mine, Clock::time_point now);
  void look(const OwnWait& wait, const activity::Picture& mine);
  bool another_reports() const;
  void receive_and_answer(const activity::Picture& mine);
  void answer(int to, const activity::Picture& mine);
  void hear_announcement(int from, Clock::time_point now);
  void hear_question(int from, const Message& question, const activity::Picture& mine, Clock::time_point now);
  void send(int to, const Message& message);
  void send_to_all(const Message& message);
  double since_heard(int rank, double waited, Clock::time_point now) const;
  Fault find(const OwnWait& wait, Clock::time_point now) const;
  bool seen_silent(int rank, Clock::time_point now) const;
  std::string name(int rank) const;
  std::string headline_of_silent(const std::vector<int>& silent, const std::vector<RankState>& ranks) const;
  std::string headline(const Fault& fault, const OwnWait& wait, const std::vector<RankState>& ranks) const;
  std::vector<RankState> states(const Fault& fault, const activity::Picture& mine, Clock::time_point now) const;
  [[noreturn]] void report(const Fault& fault, const OwnWait& wait, const activity::Picture& mine,
                           Clock::time_point now) const;

  World& world_;
  const RankProcesses& peers_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  double timeout_, interval_, period_, answers_within_, delay_;
  std::deque<OutgoingMessage> outgoing_;
  bool asking_ = false;           // this rank asks in the present wait, since asking_since_
  bool announced_ = false;        // it is going to report
  bool left_to_another_ = false;  // it has seen another_reports(), and waits for the end until stand_down_until_
  Clock::time_point asking_since_, asked_at_, announced_at_, stand_down_until_;
  Clock::time_point lower_asked_at_;  // when a lower rank has asked that waits about as long
  Clock::time_point all_heard_at_;    // that rank had heard from all ranks since
  std::atomic<Clock::time_point> continued_at_{};
  std::map<int, Heard> latest_;  // what each rank has said of itself, during the present wait
  std::map<int, Heard> seen_;    // what others have said of silent ranks
};

}  // namespace shoal::comm
