// SPDX-License-Identifier: Apache-2.0
#include "inquiry.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "mpi_error.hpp"
#include "shoal/base/error.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

namespace {
constexpr std::size_t most_named = 8;  // ranks in a message
}

Inquiry::Inquiry(const MPI_Comm& communicator, std::vector<std::string> hosts, double timeout_s, double interval_s)
    : communicator_(communicator),
      hosts_(std::move(hosts)),
      timeout_(timeout_s),
      answers_within_(3 * interval_s + std::min(1.0, timeout_s / 10)) {
  check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
}

void Inquiry::waiting(const Operation& operation, double seconds) {
  listen(operation, seconds);
  if (seconds < timeout_) {  // another wait than the one in which it asked
    asking_ = left_to_another_ = false;
    return;
  }
  if (left_to_another_) return;
  if (!asking_) {
    asking_ = true;
    asked_at_ = seconds;
    answers_.clear();
    ++number_;
    for (int r = 0; r < static_cast<int>(hosts_.size()); ++r) {
      if (r != rank_) say(r, Kind::question, number_, operation, seconds);
    }
  } else if (seconds - asked_at_ > answers_within_) {
    report(operation, seconds);
  }
}

/// Takes all words that have come.
void Inquiry::listen(const Operation& operation, double seconds) {
  while (!sent_.empty()) {
    int complete = 0;
    check(MPI_Test(&sent_.front().request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
    if (complete == 0) break;
    sent_.pop_front();
  }
  while (true) {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status status;
    check(MPI_Improbe(MPI_ANY_SOURCE, 0, communicator_, &there, &message, &status), "MPI_Improbe");
    if (there == 0) return;
    Word word;
    check(MPI_Mrecv(&word, sizeof word, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    const int from = status.MPI_SOURCE;
    if (word.kind == Kind::question) {
      say(from, Kind::answer, word.number, operation, seconds);
      if (from < rank_) left_to_another_ = true;
    } else if (asking_ && word.number == number_) {
      answers_[from] = word;
    }
  }
}

void Inquiry::say(int to, Kind kind, std::int32_t number, const Operation& operation, double seconds) {
  Sent& sent = sent_.emplace_back();  // a deque: it stays where it is until it is sent
  sent.word.kind = kind;
  sent.word.number = number;
  sent.word.seconds = seconds;
  operation.describe().copy(sent.word.operation.data(), sent.word.operation.size() - 1);
  check(MPI_Isend(&sent.word, sizeof sent.word, MPI_BYTE, to, 0, communicator_, &sent.request), "MPI_Isend");
}

void Inquiry::report(const Operation& operation, double seconds) const {
  std::string silent, others;
  std::size_t silent_ranks = 0, named = 0;
  for (int r = 0; r < static_cast<int>(hosts_.size()); ++r) {
    if (r == rank_) continue;
    const auto answer = answers_.find(r);
    if (answer == answers_.end()) {
      if (++silent_ranks <= most_named) {
        silent += text(silent_ranks > 1 ? ", rank " : "rank ", r, " (", hosts_[static_cast<std::size_t>(r)], ")");
      }
    } else if (++named <= most_named) {
      others += text("; rank ", r, " waits for ", answer->second.operation.data());
    }
  }
  if (silent_ranks > most_named) silent += text(" and ", silent_ranks - most_named, " more");
  const std::string fault =
      silent_ranks > 0 ? "no sign of life from " + silent : "all other ranks wait too: no two for the same";
  std::fputs(text("shoal: rank ", rank_, " has waited ", static_cast<std::int64_t>(seconds), " s for ", operation.describe(),
                  ": ", fault, others, "\n")
                 .c_str(),
             stderr);
  abort_all(static_cast<int>(Exit::failed));
}

}  // namespace shoal::comm
