// SPDX-License-Identifier: Apache-2.0
#include "comm/hang/inquiry.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "comm/operations/mpi_error.hpp"
#include "shoal/base/error.hpp"
#include "shoal/base/output.hpp"
#include "shoal/comm/abort.hpp"
#include "shoal/comm/world.hpp"

namespace shoal::comm {

namespace {

constexpr std::size_t most_named = 8;  // a headline names at most this many ranks

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

std::chrono::steady_clock::duration duration_of(double seconds) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

std::int64_t whole(double seconds) { return static_cast<std::int64_t>(seconds); }

bool contains(const std::vector<int>& ranks, int rank) { return std::find(ranks.begin(), ranks.end(), rank) != ranks.end(); }

}  // namespace

/// period_: between two questions. answers_within_: a rank that is alive acts on a message within an interval, and its
/// answer takes time. delay_: of this rank's first question, so that low ranks ask first and the others hear them before
/// they would ask. In a simulation of 10,000 ranks with the default timeout about ten ask, and without the delay hundreds.
Inquiry::Inquiry(World& world, const RankProcesses& peers, double timeout_s, double interval_s)
    : world_(world),
      peers_(peers),
      communicator_(*static_cast<const MPI_Comm*>(world.inquiry_communicator())),
      rank_(world.all().rank()),
      size_(world.size()),
      timeout_(timeout_s),
      interval_(interval_s),
      period_(timeout_s / 8),
      answers_within_(2 * interval_s + std::min(1.0, timeout_s / 10)),
      delay_(timeout_s / 8 * rank_ / size_) {}

void Inquiry::waiting(const Operation& operation, double seconds) {
  activity::Picture mine = *peers_.picture(rank_);
  if (mine.waits == 0) {  // an operation that the device carries out: the host does not wait in a call
    mine.waits = 1;
    mine.operation = {activity::name_from(operation.describe()), 0, mine.step, -1, -1};
  }
  mine.since_s = seconds;
  receive_and_answer(mine);
  if (seconds < timeout_ / 2 && !announced_) latest_.clear();  // a new wait: forget the answers of the last one
  const Clock::time_point now = Clock::now();
  ask(std::min(seconds, seconds_between(continued_at_, now)), mine, now);
  look({&operation, seconds}, mine);
}

/// Asks all ranks if it is time, unless a lower rank has asked within its period.
void Inquiry::ask(double waited, const activity::Picture& mine, Clock::time_point now) {
  const double lower_asks_within = period_ + 3 * interval_;
  if (waited < timeout_ / 2 + delay_ || seconds_between(lower_asked_at_, now) < lower_asks_within + delay_) {
    asking_ = false;
    return;
  }
  if (!std::exchange(asking_, true)) {
    asking_since_ = now;
  } else if (seconds_between(asked_at_, now) < period_) {
    return;
  }
  asked_at_ = now;
  double quiet_s = 0;
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) quiet_s = std::max(quiet_s, since_heard(r, waited, now));
  }
  send_to_all({Kind::question, mine, quiet_s});
}

void Inquiry::at_work() {
  const activity::Picture mine = *peers_.picture(rank_);
  receive_and_answer(mine);
  look({}, mine);
}

/// Announces a hang, and reports it when the answers are there.
void Inquiry::look(const OwnWait& wait, const activity::Picture& mine) {
  const Clock::time_point now = Clock::now();
  const Fault fault = find(wait, now);
  if (!fault.found()) {
    announced_ = false;
    return;
  }
  if (another_reports() && !std::exchange(left_to_another_, true))
    stand_down_until_ = now + duration_of(2 * answers_within_);
  if (now < stand_down_until_) return;
  if (!std::exchange(announced_, true)) {
    announced_at_ = now;
    send_to_all({Kind::announcement, mine});
    return;
  }
  if (seconds_between(announced_at_, now) >= answers_within_) report(fault, wait, mine, now);
}

/// Returns true if a rank of this machine ends the run: on a busy machine an announcement may come too late.
bool Inquiry::another_reports() const {
  return std::any_of(peers_.visible().begin(), peers_.visible().end(), [this](int r) {
    const auto picture = peers_.picture(r);
    return picture && picture->aborts != 0;
  });
}

/// Receives all messages that have arrived, and answers questions.
void Inquiry::receive_and_answer(const activity::Picture& mine) {
  while (!outgoing_.empty()) {
    int complete = 0;
    const int code = MPI_Test(&outgoing_.front().request, &complete, MPI_STATUS_IGNORE);
    if (code == MPI_SUCCESS && complete == 0) break;
    outgoing_.pop_front();
  }
  while (true) {
    int there = 0;
    MPI_Message message = MPI_MESSAGE_NULL;
    MPI_Status source;
    check(MPI_Improbe(MPI_ANY_SOURCE, 0, communicator_, &there, &message, &source), "MPI_Improbe");
    if (there == 0) return;
    Message received;
    check(MPI_Mrecv(&received, sizeof received, MPI_BYTE, &message, MPI_STATUS_IGNORE), "MPI_Mrecv");
    const int from = source.MPI_SOURCE;
    const Clock::time_point now = Clock::now();
    (received.picture.rank == from ? latest_[from] : seen_[received.picture.rank]) = {received.picture, now};
    if (received.kind == Kind::answer) continue;
    if (received.kind == Kind::announcement) hear_announcement(from, now);
    if (received.kind == Kind::question) hear_question(from, received, mine, now);
    answer(from, mine);
  }
}

/// Answers for this rank, and for ranks of this machine that are silent.
void Inquiry::answer(int to, const activity::Picture& mine) {
  send(to, {Kind::answer, mine});
  for (const int r : peers_.visible()) {
    const auto picture = r == to ? std::nullopt : peers_.picture(r);
    if (picture && picture->silent_s > timeout_ / 2) send(to, {Kind::answer, *picture});
  }
}

void Inquiry::hear_announcement(int from, Clock::time_point now) {
  if (rank_ < from) return;
  announced_ = false;
  stand_down_until_ = now + duration_of(2 * answers_within_);
}

/// A rank that began to wait much later than this one would find a fault later.
void Inquiry::hear_question(int from, const Message& question, const activity::Picture& mine, Clock::time_point now) {
  if (rank_ < from || question.picture.since_s < mine.since_s - period_) return;
  lower_asked_at_ = now;
  all_heard_at_ = now - duration_of(question.quiet_s);
}

/// If MPI cannot send, the rank has died, on another machine; it does not answer, so find() names it.
void Inquiry::send(int to, const Message& message) {
  OutgoingMessage& outgoing = outgoing_.emplace_back();  // a deque does not move its elements, so the buffer stays in place
  outgoing.message = message;
  const int code = MPI_Isend(&outgoing.message, sizeof outgoing.message, MPI_BYTE, to, 0, communicator_, &outgoing.request);
  if (code != MPI_SUCCESS) outgoing_.pop_back();
}

void Inquiry::send_to_all(const Message& message) {
  for (int r = 0; r < size_; ++r) {
    if (r != rank_) send(r, message);
  }
}

/// Seconds since this rank, or the lower rank that asks for it, last heard from `rank`; at most the time that this rank has
/// waited.
double Inquiry::since_heard(int rank, double waited, Clock::time_point now) const {
  const double since = std::min(waited, seconds_between(all_heard_at_, now));
  const auto latest = latest_.find(rank);
  return latest == latest_.end() ? since : std::min(since, seconds_between(latest->second.at, now));
}

/// Returns true if the rank's heartbeat is known to be older than the timeout: it is read, or the rank's watchdog has said
/// so in its place.
bool Inquiry::seen_silent(int rank, Clock::time_point now) const {
  if (const auto silence = peers_.silence_s(rank)) return *silence > timeout_;
  const auto latest = latest_.find(rank);
  return latest != latest_.end() && latest->second.picture.silent_s > timeout_ &&
         seconds_between(latest->second.at, now) < 2 * period_;
}

/// A rank is mute if it has not been heard for the timeout, and has been asked for a quarter of it. One whose heartbeat can
/// be read is silent or alive. All ranks count as waiting only if each of them has waited for the timeout, according to its
/// latest message.
Inquiry::Fault Inquiry::find(const OwnWait& wait, Clock::time_point now) const {
  Fault fault;
  for (int r = 0; r < size_; ++r) {
    if (r != rank_ && seen_silent(r, now)) fault.silent.push_back(r);
  }
  const double allowed = timeout_ + answers_within_, waited = std::min(wait.seconds, seconds_between(continued_at_, now));
  if (waited <= allowed || !asking_ || seconds_between(asking_since_, now) < timeout_ / 4) return fault;
  fault.all_wait = fault.silent.empty();
  for (int r = 0; r < size_; ++r) {
    if (r == rank_ || contains(fault.silent, r)) continue;
    const auto latest = latest_.find(r);
    const bool said = latest != latest_.end() && seconds_between(latest->second.at, now) <= allowed;
    if (said && latest->second.picture.waits != 0 && latest->second.picture.since_s >= timeout_) continue;
    fault.all_wait = false;
    if (since_heard(r, waited, now) > allowed && !peers_.silence_s(r)) fault.mute.push_back(r);
  }
  return fault;
}

/// "rank 3 (n1, process 812)".
std::string Inquiry::name(int rank) const {
  return text("rank ", rank, " (", world_.topology().hosts[static_cast<std::size_t>(rank)], ", process ",
              peers_.process(rank).number, ")");
}

std::string Inquiry::headline_of_silent(const std::vector<int>& silent, const std::vector<RankState>& ranks) const {
  std::string names;
  double longest = 0;
  for (std::size_t i = 0; i < silent.size(); ++i) {
    if (i < most_named) names += text(i > 0 ? ", " : "", name(silent[i]));
    if (const auto& picture = ranks[static_cast<std::size_t>(silent[i])].picture) {
      longest = std::max(longest, picture->silent_s);
    }
  }
  if (silent.size() > most_named) names += text(" and ", silent.size() - most_named, " more");
  const auto& first = ranks[static_cast<std::size_t>(silent.front())].picture;
  return text(names, silent.size() == 1 ? " has" : " have", " shown no sign of life for ", whole(longest), " s, in phase ",
              first ? activity::text_of(first->phase) : "unknown", " (comm.timeout = ", timeout_, ")");
}

std::string Inquiry::headline(const Fault& fault, const OwnWait& wait, const std::vector<RankState>& ranks) const {
  const bool stopped = !fault.silent.empty() && std::all_of(fault.silent.begin(), fault.silent.end(), [&](int r) {
    return ranks[static_cast<std::size_t>(r)].process == 'T';
  });
  // A rank that does not wait itself reports silent ones alone.
  if (wait.operation == nullptr || (!fault.silent.empty() && !stopped)) return headline_of_silent(fault.silent, ranks);
  const std::string begin =
      text("rank ", rank_, " has waited ", whole(wait.seconds), " s for ", wait.operation->describe(), ": ");
  if (fault.all_wait) return begin + "all ranks are waiting (a deadlock, or collectives called in different orders)";
  std::vector<int> missing = fault.silent;
  missing.insert(missing.end(), fault.mute.begin(), fault.mute.end());
  std::sort(missing.begin(), missing.end());
  std::string names;
  for (std::size_t i = 0; i < std::min(missing.size(), most_named); ++i) {
    names += text(i > 0 ? ", rank " : "rank ", missing[i], " (",
                  world_.topology().hosts[static_cast<std::size_t>(missing[i])], ")");
  }
  if (missing.size() > most_named) names += text(" and ", missing.size() - most_named, " more");
  return begin + "no sign of life from " + names;
}

/// Of each rank what it has said itself; of those that hang what can be read of them, here or by another rank.
std::vector<RankState> Inquiry::states(const Fault& fault, const activity::Picture& mine, Clock::time_point now) const {
  std::vector<RankState> ranks(static_cast<std::size_t>(size_));
  const auto aged = [&](Heard heard) {
    const double age = seconds_between(heard.at, now);
    if (heard.picture.since_s >= 0) heard.picture.since_s += age;
    heard.picture.silent_s += age;
    return heard.picture;
  };
  for (int r = 0; r < size_; ++r) {
    RankState& state = ranks[static_cast<std::size_t>(r)];
    state.silent = contains(fault.silent, r) || contains(fault.mute, r);
    const auto own = latest_.find(r), seen = seen_.find(r);
    const bool speaks = own != latest_.end() && !state.silent;
    const auto read = speaks ? std::nullopt : peers_.picture(r);
    if (r == rank_) {
      state.picture = mine;
    } else if (read) {
      state.picture = read;
    } else if (!speaks && seen != seen_.end()) {
      state.picture = aged(seen->second);
    } else if (own != latest_.end()) {
      state.picture = aged(own->second);
    }
    if (state.silent && contains(peers_.visible(), r)) state.process = process_state(peers_.process(r));
  }
  return ranks;
}

void Inquiry::report(const Fault& fault, const OwnWait& wait, const activity::Picture& mine, Clock::time_point now) const {
  activity::set_aborting();  // first: another rank may be about to report, too
  const std::vector<RankState> ranks = states(fault, mine, now);
  output::complain(text("shoal: ", headline(fault, wait, ranks), "\n", hang_table(ranks, world_.group_kinds())));
  abort_all(static_cast<int>(Exit::failed));
}

std::string Inquiry::report_of_own_hang(double silence_s) const {
  std::vector<RankState> ranks(static_cast<std::size_t>(size_));
  for (int r = 0; r < size_; ++r) {
    RankState& state = ranks[static_cast<std::size_t>(r)];
    state.picture = peers_.picture(r);
    state.silent = r == rank_ || (state.picture && state.picture->silent_s > timeout_ / 2);
    if (r != rank_ && state.silent) state.process = process_state(peers_.process(r));
  }
  ranks[static_cast<std::size_t>(rank_)].picture->silent_s = silence_s;
  return text("shoal: ", headline_of_silent({rank_}, ranks), "\n", hang_table(ranks, world_.group_kinds()));
}

}  // namespace shoal::comm
